"""``fashion-mnist``: 70,000 images of clothes of 28x28 pixels (Xiao, Rasul & Vollgraf 2017)."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import attrs

from .files import Recipe
from .idx import FILES, IdxImages


@attrs.frozen(kw_only=True, slots=False)
class FashionMnist(IdxImages):
    """Fashion-MNIST from four idx files; test is the official one, validation a tenth of train."""

    class_names: ClassVar[tuple[str, ...] | None] = (
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    )
    recipe: ClassVar[Recipe] = Recipe(
        "fashion-mnist",
        FILES,
        "on Debian or Ubuntu `apt install dataset-fashion-mnist`; elsewhere the four files of "
        "https://github.com/zalandoresearch/fashion-mnist",
    )
    usual: ClassVar[tuple[Path, ...]] = (Path("/usr/share/datasets/fashion-mnist"),)

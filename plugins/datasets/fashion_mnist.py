"""``fashion-mnist``: 70,000 pictures of clothes of 28x28 pixels (Xiao, Rasul & Vollgraf 2017)."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import attrs

from .files import Recipe
from .idx import IdxImages


@attrs.frozen(kw_only=True, slots=False)
class FashionMnist(IdxImages):
    """Fashion-MNIST from four idx files; test is the official one, validation a tenth of train."""

    class_names: ClassVar[tuple[str, ...] | None] = (
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    )

    @property
    def recipe(self) -> Recipe:
        return Recipe(
            "fashion-mnist",
            "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, "
            "t10k-labels-idx1-ubyte, each plain or .gz",
            "on Debian or Ubuntu `apt install dataset-fashion-mnist`; elsewhere the four files "
            "of https://github.com/zalandoresearch/fashion-mnist",
        )

    @property
    def usual(self) -> tuple[Path, ...]:
        return (Path("/usr/share/datasets/fashion-mnist"),)

"""``mnist``: 70,000 hand-written digits of 28x28 pixels (LeCun, Cortes & Burges)."""

from __future__ import annotations

from typing import ClassVar

import attrs

from .files import Recipe
from .idx import FILES, IdxImages


@attrs.frozen(kw_only=True, slots=False)
class Mnist(IdxImages):
    """MNIST from its four idx files; test is the official one, validation a tenth of train."""

    recipe: ClassVar[Recipe] = Recipe(
        "mnist", FILES, "the four files of http://yann.lecun.com/exdb/mnist/ or of any mirror of it"
    )

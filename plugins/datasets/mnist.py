"""``mnist``: 70,000 hand-written digits of 28x28 pixels (LeCun, Cortes & Burges)."""

from __future__ import annotations

import attrs

from .files import Recipe
from .idx import IdxImages


@attrs.frozen(kw_only=True, slots=False)
class Mnist(IdxImages):
    """MNIST from its four idx files; test is the official one, validation a tenth of train."""

    @property
    def recipe(self) -> Recipe:
        return Recipe(
            "mnist",
            "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, "
            "t10k-labels-idx1-ubyte, each plain or .gz",
            "the four files of http://yann.lecun.com/exdb/mnist/ or of any mirror of it",
        )

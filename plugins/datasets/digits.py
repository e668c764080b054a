"""``digits``: 1797 hand-written digits of 8x8 pixels in 17 grey levels, inside scikit-learn.

Nothing to download. Test is a fixed fifth of each class, validation a fixed tenth of the rest: 1295
train, 143 validation, 359 test.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import attrs
import numpy as np
from elbowroom import DataSpec, Split
from numpy.typing import NDArray

from .shrink import Shrinkable
from .splits import ArraySplit, Rows, stratified


@attrs.frozen(kw_only=True, slots=False)
class Digits(Shrinkable):
    """scikit-learn's digits."""

    @property
    def full_spec(self) -> DataSpec:
        return DataSpec((8, 8, 1), levels=17, classes=10)

    def full_split(self, name: str) -> Split:
        images, labels = self._arrays
        return ArraySplit(images, labels, self._rows[name])

    @cached_property
    def _arrays(self) -> tuple[NDArray[Any], NDArray[Any]]:
        from sklearn.datasets import load_digits

        bunch = load_digits()
        return bunch.images.astype(np.uint8)[..., None], bunch.target.astype(np.int64)

    @cached_property
    def _rows(self) -> dict[str, Rows]:
        labels = self._arrays[1]
        rest, test = stratified(labels, 0.2)
        train, validation = stratified(labels[rest], 0.1)
        return {"train": rest[train], "validation": rest[validation], "test": test}

"""Data sets: integers in, integers out.

A data set yields integers ``0 .. levels-1`` (pixels, tokens) and labels. Processes encode them
as they need, so bits per dimension and samples are comparable whatever the process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from torch import Tensor


@attrs.frozen
class DataSpec:
    """What a data set's examples look like."""

    shape: tuple[int, ...]  # (H, W, C) for images, (N,) for sequences
    levels: int = attrs.field(validator=attrs.validators.ge(2))
    classes: int | None = None  # None: no labels

    @property
    def dims(self) -> int:
        """The number of integers in one example."""
        n = 1
        for side in self.shape:
            n *= side
        return n


@attrs.frozen(eq=False)
class Batch:
    """Examples as they leave a data set."""

    x: Tensor  # [B, *shape] integers
    y: Tensor | None = None  # [B] labels


class Split(ABC):
    """A fixed, indexable part of a data set."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, indices: Tensor) -> Batch:
        """The examples at ``indices`` [B], in that order."""


class Dataset(ABC):
    """A named source of integer examples with fixed splits."""

    @property
    @abstractmethod
    def spec(self) -> DataSpec: ...

    @abstractmethod
    def split(self, name: str) -> Split:
        """``train``, ``validation`` or ``test``; each always the same examples."""

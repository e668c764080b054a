"""Data sets: integers in, integers out.

A data set yields integers ``0 .. levels-1`` (pixels, tokens) and labels. Processes encode them
as they need, so bits per dimension and samples are comparable whatever the process.

A split is *indexable* and stateless: which examples make up a batch is decided elsewhere
(:mod:`elbowroom.order` in training, plain order in evaluation), so a split may live on disk and
be read by any number of workers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from .errors import ElbowroomError, did_you_mean

if TYPE_CHECKING:
    from torch import Tensor

SPLITS = ("train", "validation", "test")
"""The splits every data set has; they share no example."""


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

    def __len__(self) -> int:
        return len(self.x)


class Split(ABC):
    """A fixed, indexable part of a data set."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, indices: Tensor) -> Batch:
        """The examples at ``indices`` [B], in that order."""

    def batches(self, size: int) -> Iterator[Batch]:
        """Every example once, in the split's own order, at most ``size`` at a time."""
        import torch

        if size < 1:
            raise ValueError(f"a batch has at least 1 example, not {size}")
        for start in range(0, len(self), size):
            yield self.take(torch.arange(start, min(start + size, len(self))))


class Dataset(ABC):
    """A named source of integer examples with fixed splits."""

    @property
    @abstractmethod
    def spec(self) -> DataSpec: ...

    @abstractmethod
    def split(self, name: str) -> Split:
        """``train``, ``validation`` or ``test``; each always the same examples."""


def check_split(name: str) -> str:
    """``name`` if it is one of :data:`SPLITS`; otherwise an error that lists them."""
    if name not in SPLITS:
        raise ElbowroomError(
            f"no split {name!r}{did_you_mean(name, SPLITS)}: a data set has {', '.join(SPLITS)}"
        )
    return name

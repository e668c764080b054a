"""Options of every image data set: fewer pixels, fewer levels, fewer examples.

size    area average: output pixel (i, j) is the mean of the source over its area, including
        partial pixels, rounded half up; computed in integers (units of 1/size of a pixel), so
        it is exact on every machine
levels  x -> floor(x * levels / source levels): equal bins
limit   that many examples of each split, chosen by the keyed permutation with seed 0; a
        smaller limit is a subset of a larger one
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from pathlib import Path

import attrs
import numpy as np
import torch
from attrs.validators import ge, optional
from elbowroom import Batch, ConfigError, Dataset, DataSpec, Split
from elbowroom.contracts import check_split
from elbowroom.randomness import permute
from torch import Tensor

from .splits import Array, ArraySplit, carve, check_indices

_SEED = 0  # part of the definition of a limited split: never changes


@attrs.frozen(kw_only=True, slots=False)  # no slots: sources use cached_property
class Shrinkable(Dataset):
    """A data set with these options. Subclasses define ``full_spec`` and ``full_split``."""

    size: int | None = attrs.field(default=None, validator=optional(ge(1)))
    levels: int | None = attrs.field(default=None, validator=optional(ge(2)))
    limit: int | None = attrs.field(default=None, validator=optional(ge(1)))

    @property
    @abstractmethod
    def full_spec(self) -> DataSpec:
        """The spec without the options."""

    @abstractmethod
    def full_split(self, name: str) -> Split:
        """All of ``train``, ``validation`` or ``test``, without the options."""

    @property
    def spec(self) -> DataSpec:
        full, name = self.full_spec, type(self).__name__
        shape, levels = full.shape, full.levels
        if self.size is not None and (self.size,) * 2 != shape[:2]:
            if len(shape) != 3 or shape[0] != shape[1]:
                raise ConfigError(f"{name}: size={self.size} needs square images, not {shape}")
            if self.size > shape[0]:
                raise ConfigError(
                    f"{name}: size={self.size} is larger than its {shape[0]}x{shape[1]} images"
                )
            shape = (self.size, self.size, shape[2])
        if self.levels is not None:
            if self.levels > levels:
                raise ConfigError(f"{name}: levels={self.levels}, but it has only {levels}")
            levels = self.levels
        return attrs.evolve(full, shape=shape, levels=levels)

    def split(self, name: str) -> Split:
        spec, full = self.spec, self.full_spec
        split = self.full_split(check_split(name))
        if self.limit is not None and self.limit < len(split):
            split = Limited(split, self.limit)
        if spec.shape != full.shape:
            split = Resized(split, spec.shape[0])
        if spec.levels != full.levels:
            split = Requantised(split, full.levels, spec.levels)
        return split


@attrs.frozen(kw_only=True, slots=False)
class TrainAndTest(Shrinkable):
    """A source with a train and a test part; validation is carved out of train."""

    path: Path | None = None  # the folder; None: the default ones

    @abstractmethod
    def read_part(self, part: str) -> tuple[Array, Array | None]:
        """Images and labels of ``train`` or ``test``."""

    @cached_property
    def _train(self) -> tuple[Array, Array | None]:
        return self.read_part("train")

    @cached_property
    def _test(self) -> tuple[Array, Array | None]:
        return self.read_part("test")

    def full_split(self, name: str) -> Split:
        if name == "test":
            return ArraySplit(*self._test)
        train, validation = carve(np.arange(len(self._train[0])), type(self).__name__)
        return ArraySplit(*self._train, train if name == "train" else validation)


@attrs.frozen(eq=False)
class Limited(Split):
    """A fixed choice of ``count`` examples, in their order."""

    base: Split
    count: int
    _rows: Tensor = attrs.field(init=False, repr=False)

    @_rows.default
    def _choose(self) -> Tensor:
        return permute(torch.arange(self.count), len(self.base), _SEED).sort().values

    def __len__(self) -> int:
        return self.count

    def take(self, indices: Tensor) -> Batch:
        return self.base.take(self._rows[check_indices(indices, self.count)])


@attrs.frozen(eq=False)
class Resized(Split):
    """The same square images with fewer pixels."""

    base: Split
    size: int

    def __len__(self) -> int:
        return len(self.base)

    def take(self, indices: Tensor) -> Batch:
        batch = self.base.take(indices)
        return attrs.evolve(batch, x=area_average(batch.x, self.size))


@attrs.frozen(eq=False)
class Requantised(Split):
    """The same examples in fewer levels."""

    base: Split
    levels: int
    to: int

    def __len__(self) -> int:
        return len(self.base)

    def take(self, indices: Tensor) -> Batch:
        batch = self.base.take(indices)
        x = (batch.x * self.to).div_(self.levels, rounding_mode="floor")
        return attrs.evolve(batch, x=x)


def area_average(x: Tensor, size: int) -> Tensor:
    """[B, S, S, C] integers -> [B, size, size, C] int64, rounded half up; also to larger sizes."""
    side = x.shape[1]
    total = _area_sums(_area_sums(x.long(), size, 1), size, 2)  # weights sum to side^2
    return total.mul_(2).add_(side**2).div_(2 * side**2, rounding_mode="floor")


def _area_sums(x: Tensor, size: int, axis: int) -> Tensor:
    """``size`` times the sums of x over ``size`` equal stretches of an axis, in integers.

    The sum up to an edge q + r/size is that of the first q elements plus r/size of the next one.
    """
    side = x.shape[axis]
    if side % size == 0:  # whole pixels only: faster
        shape = (*x.shape[:axis], size, side // size, *x.shape[axis + 1 :])
        stretches = x.reshape(shape).unbind(axis + 1)
        total = stretches[0] * size
        for stretch in stretches[1:]:
            total.add_(stretch, alpha=size)
        return total
    edges = torch.arange(size + 1) * side
    whole, part = edges // size, edges % size
    empty = torch.zeros_like(x.narrow(axis, 0, 1))
    before = torch.cat([empty, x.cumsum(axis)], axis).index_select(axis, whole)
    following = torch.cat([x, empty], axis).index_select(axis, whole)
    spread = part.reshape(-1, *(1,) * (x.ndim - axis - 1))
    return (before.mul_(size) + following.mul_(spread)).diff(dim=axis)

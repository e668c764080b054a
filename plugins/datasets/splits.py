"""Splits over arrays, and the rule by which a missing split is carved out of train.

The rule, the same for every source and every machine:

    validation   a tenth of train, at least 1 and at most 10,000 examples, chosen by the keyed
                 permutation of ``elbowroom.order`` with seed 0
    test         the source's own, never touched; where a source has none, a second such tenth
"""

from __future__ import annotations

from typing import Any, Protocol

import attrs
import numpy as np
import torch
from elbowroom.dataset import Batch, Split
from elbowroom.errors import ElbowroomError
from elbowroom.order import permute
from numpy.typing import NDArray
from torch import Tensor

Rows = NDArray[np.int64]

_MOST = 10_000
_SEED = 0  # part of the definition of every carved split: never changes


class Array(Protocol):
    """What a split reads from: a numpy array, or one that stays on disk."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any) -> NDArray[Any]: ...


@attrs.frozen(eq=False)
class ArraySplit(Split):
    """Some rows of an array of images and of an array of labels."""

    images: Array  # [N, *shape]
    labels: Array | None  # [N]
    rows: Rows | None = None  # which of the N; None: all

    def __len__(self) -> int:
        return len(self.images) if self.rows is None else len(self.rows)

    def take(self, indices: Tensor) -> Batch:
        rows = check_indices(indices, len(self))
        if self.rows is not None:
            rows = self.rows[rows]
        x = torch.from_numpy(self.images[rows]).long()
        y = None if self.labels is None else torch.from_numpy(self.labels[rows]).long()
        return Batch(x, y)


def check_indices(indices: Tensor, size: int) -> Rows:
    """``indices`` as numpy; numpy itself would take a negative one from the other end."""
    rows: Rows = indices.detach().cpu().numpy()
    if rows.size and not (rows.min() >= 0 and rows.max() < size):
        raise IndexError(f"indices {rows.min()} .. {rows.max()} of a split of {size} examples")
    return rows


def carve(rows: Rows, source: object) -> tuple[Rows, Rows]:
    """(what stays, the carved part) of ``rows``, both in their old order."""
    count = len(rows)
    if count < 2:
        raise ElbowroomError(f"{source}: {count} example(s) cannot be split into two parts")
    chosen = permute(torch.arange(carved_size(count)), count, _SEED).numpy()
    inside = np.zeros(count, dtype=bool)
    inside[chosen] = True
    return rows[~inside], rows[inside]


def carved_size(count: int) -> int:
    """How many of ``count`` examples are carved out: a tenth, at least 1, at most 10,000."""
    return max(1, min(count // 10, _MOST))


def stratified(labels: NDArray[Any], share: float) -> tuple[Rows, Rows]:
    """(rest, part): ``share`` of each class, rounded, in the part; both in ascending order."""
    part: list[Rows] = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        count = round(share * len(members))
        part.append(members[permute(torch.arange(count), len(members), _SEED, int(label)).numpy()])
    chosen = np.sort(np.concatenate(part))
    return np.setdiff1d(np.arange(len(labels)), chosen), chosen

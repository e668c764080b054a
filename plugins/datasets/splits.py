"""Splits over arrays, and the rule that carves a missing split out of train:

    validation   a tenth of train, at least 1 and at most 10,000 examples, chosen by the keyed
                 permutation of ``elbowroom.randomness.shuffle`` with seed 0
    test         the source's own, unchanged; if it has none, a second such tenth

If a folder has a validation part and no test part, train is unchanged: a tenth of the validation
part is validation, the rest of it is test.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import attrs
import numpy as np
import torch
from elbowroom import Batch, ElbowroomError, Split
from elbowroom.randomness import permute
from numpy.typing import NDArray
from torch import Tensor

Rows = NDArray[np.int64]
_Source = TypeVar("_Source")

_MOST = 10_000
_SEED = 0  # part of the definition of every carved split: never changes


class Array(Protocol):
    """A numpy array, or one on disk."""

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
    """``indices`` as numpy, none of them negative."""
    rows: Rows = indices.detach().cpu().numpy()
    if rows.size and not (rows.min() >= 0 and rows.max() < size):
        raise IndexError(f"indices {rows.min()} .. {rows.max()} of a split of {size} examples")
    return rows


def carve(rows: Rows, source: object) -> tuple[Rows, Rows]:
    """(rest, carved part) of ``rows``, both in their order."""
    count = len(rows)
    if count < 2:
        raise ElbowroomError(f"{source}: {count} example(s) cannot be split into two parts")
    chosen = permute(torch.arange(carved_size(count)), count, _SEED).numpy()
    inside = np.zeros(count, dtype=bool)
    inside[chosen] = True
    return rows[~inside], rows[inside]


_Parts = dict[str, tuple[_Source, Rows]]  # split -> (where, which rows of it)


def with_tenths_of_train(parts: _Parts[_Source], name: object) -> _Parts[_Source]:
    """All three splits; missing ones are carved out of train."""
    splits = dict(parts)
    for missing in ("test", "validation"):
        if missing not in splits:
            where, rows = splits["train"]
            rest, tenth = carve(rows, name)
            splits["train"], splits[missing] = (where, rest), (where, tenth)
    return splits


def with_train_whole(parts: _Parts[_Source], name: object) -> _Parts[_Source]:
    """The same, but validation without test is divided into both."""
    if "validation" in parts and "test" not in parts:
        where, rows = parts["validation"]
        rest, tenth = carve(rows, name)
        parts = {**parts, "validation": (where, tenth), "test": (where, rest)}
    return with_tenths_of_train(parts, name)


def carved_size(count: int) -> int:
    """Number of examples carved out of ``count``: a tenth, at least 1, at most 10,000."""
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

"""The batches of a run: examples in keyed order, read ahead of their use.

Which examples make up step n is a pure function of (seed, n, position): nothing is remembered, so
a feed can begin anywhere, and reading ahead changes no result.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import torch
from elbowroom import Batch, ElbowroomError, Noise, Split
from elbowroom.randomness import indices
from torch import Tensor

from .ranks import Ranks

_AHEAD = 2  # batches being read while one is used


class BatchLoader:
    """This rank's part of each global batch, on its device."""

    def __init__(self, split: Split, seed: int, total: int, ranks: Ranks) -> None:
        if len(split) == 0:
            raise ElbowroomError("the data set's train split is empty: there is nothing to learn")
        self.split, self.seed, self.total, self.ranks = split, seed, total, ranks
        self.positions = ranks.positions(total)  # [B]
        self._placed = self.positions.to(ranks.device)
        self._reader = ThreadPoolExecutor(1, "elbowroom-feed")
        self._coming: dict[int, Future[Batch]] = {}

    def rows(self, step: int) -> Tensor:
        """[B] which examples of the split are used at ``step``, on the CPU."""
        return indices(self.seed, step, self.positions, self.total, len(self.split))

    def noise(self, step: int) -> Noise:
        """The random numbers of ``step``."""
        return Noise(self.seed, self._placed, self.total, step)

    def __call__(self, step: int) -> Batch:
        """The examples of ``step``."""
        for n in range(step, step + 1 + _AHEAD):
            if n not in self._coming:
                self._coming[n] = self._reader.submit(self._read, n)
        batch = self._coming.pop(step).result()
        return Batch(self._moved(batch.x), None if batch.y is None else self._moved(batch.y))

    def close(self) -> None:
        """Stop reading."""
        self._reader.shutdown(wait=True, cancel_futures=True)

    def _read(self, step: int) -> Batch:
        batch = self.split.take(self.rows(step))
        if self.ranks.device.type != "cuda":
            return batch
        # pinned memory: the copy to the GPU goes on while the GPU works
        return Batch(batch.x.pin_memory(), None if batch.y is None else batch.y.pin_memory())

    def _moved(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.ranks.device, non_blocking=True)


def with_labels_dropped(
    labels: Tensor | None, share: float, classes: int | None, noise: Noise
) -> Tensor | None:
    """[B] labels, each replaced by "no label" (``classes``) with probability ``share``."""
    if labels is None or classes is None or share == 0:
        return labels
    dropped = noise.uniform("label-dropout", dtype=torch.float32) < share
    return torch.where(dropped, classes, labels)

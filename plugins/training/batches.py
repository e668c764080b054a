"""The batches of a run: examples in keyed order, prefetched.

The examples of step n are a function of (seed, n, position): there is no state, so a loader can
start at any step, and prefetching changes no result.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import torch
from elbowroom import Batch, ElbowroomError, Noise, Split
from elbowroom.randomness import indices
from torch import Tensor

from .ranks import Ranks

_PREFETCH = 2  # batches


class BatchLoader:
    """This rank's part of each global batch, on its device."""

    def __init__(self, split: Split, seed: int, total: int, ranks: Ranks) -> None:
        if len(split) == 0:
            raise ElbowroomError("the train split of the data set is empty")
        self.split, self.seed, self.total, self.ranks = split, seed, total, ranks
        self.positions = ranks.positions(total)  # [B]
        self._on_device = self.positions.to(ranks.device)
        self._reader = ThreadPoolExecutor(1, "elbowroom-batches")
        self._pending: dict[int, Future[Batch]] = {}

    def rows(self, step: int) -> Tensor:
        """[B] indices of the examples of ``step``, on the CPU."""
        return indices(self.seed, step, self.positions, self.total, len(self.split))

    def noise(self, step: int) -> Noise:
        """The noise of ``step``."""
        return Noise(self.seed, self._on_device, self.total, step)

    def __call__(self, step: int) -> Batch:
        """The examples of ``step``."""
        for n in range(step, step + 1 + _PREFETCH):
            if n not in self._pending:
                self._pending[n] = self._reader.submit(self._read, n)
        batch = self._pending.pop(step).result()
        return Batch(
            self._to_device(batch.x), None if batch.y is None else self._to_device(batch.y)
        )

    def close(self) -> None:
        """Stop the reader thread."""
        self._reader.shutdown(wait=True, cancel_futures=True)

    def _read(self, step: int) -> Batch:
        batch = self.split.take(self.rows(step))
        if self.ranks.device.type != "cuda":
            return batch
        # from pinned memory the copy to the GPU is asynchronous
        return Batch(batch.x.pin_memory(), None if batch.y is None else batch.y.pin_memory())

    def _to_device(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.ranks.device, non_blocking=True)


def with_labels_dropped(
    labels: Tensor | None, share: float, classes: int | None, noise: Noise
) -> Tensor | None:
    """[B] labels, each replaced by the null label ``classes`` with probability ``share``."""
    if labels is None or classes is None or share == 0:
        return labels
    dropped = noise.uniform("label-dropout", dtype=torch.float32) < share
    return torch.where(dropped, classes, labels)

"""The batches of a run: examples in keyed order, read ahead of their use.

Which examples make up step n is a pure function of (seed, n, position): nothing is remembered, so
a feed can begin anywhere, and reading ahead changes no result.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

from ..contracts.dataset import Batch, Split
from ..errors import ElbowroomError
from ..randomness.noise import Noise
from ..randomness.shuffle import indices
from ..runs.ranks import Ranks

_AHEAD = 2  # batches being read while one is used


class Feed:
    """This rank's part of each global batch, on its device."""

    def __init__(
        self, split: Split, seed: int, total: int, ranks: Ranks, paired: bool = False
    ) -> None:
        if len(split) == 0:
            raise ElbowroomError("the data set's train split is empty: there is nothing to learn")
        check_pairs(paired, total)
        self.split, self.seed, self.total, self.ranks = split, seed, total, ranks
        self.paired = paired
        self.positions = ranks.positions(total)  # [B]
        self._placed = self.positions.to(ranks.device)
        self._reader = ThreadPoolExecutor(1, "elbowroom-feed")
        self._coming: dict[int, Future[Batch]] = {}

    def rows(self, step: int) -> Tensor:
        """[B] which examples of the split are used at ``step``, on the CPU."""
        each = 2 if self.paired else 1  # looks at an example
        return indices(self.seed, step, self.positions // each, self.total // each, len(self.split))

    def noise(self, step: int) -> Noise:
        """The random numbers of ``step``."""
        noise = Noise(self.seed, self._placed, self.total, step)
        return noise.in_pairs() if self.paired else noise

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


def check_pairs(paired: bool, total: int) -> None:
    """A batch of pairs has an even number of examples."""
    if paired and total % 2:
        raise ElbowroomError(
            f"train.batch_size: the time sampler looks at examples in pairs, and {total} is odd"
        )


def with_labels_dropped(
    labels: Tensor | None, share: float, classes: int | None, noise: Noise
) -> Tensor | None:
    """[B] labels, each replaced by "no label" (``classes``) with probability ``share``."""
    if labels is None or classes is None or share == 0:
        return labels
    dropped = noise.unmirrored.uniform("label-dropout", dtype=torch.float32) < share
    return torch.where(dropped, classes, labels)

"""Weights per position: channels of an image, tokens of a text.

    loss = w(t) elbo_weight(t) sum_n v_n plain_n

With equal v this is the weighting ``of``, which may be trainable. The loss of every position is
non-negative, so the objective is between min(v) and max(v) times that of ``of``; v is divided by
its mean. If ``of`` has weights per position too, they are multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from elbowroom import Level, Process, Schedule, Weighting
from torch import Tensor, nn


def _checked(weights: Sequence[float]) -> tuple[float, ...]:
    if not weights or min(weights) < 0 or not sum(weights) < float("inf") or max(weights) <= 0:
        raise ValueError("weights must be non-negative numbers, not all zero")
    return tuple(map(float, weights))


class Positions(nn.Module, Weighting):
    """The weighting ``of``, times ``weights`` along the last dimension of an example."""

    def __init__(self, *, of: Weighting, weights: tuple[float, ...]) -> None:
        super().__init__()
        self.of, self.weights = of, _checked(weights)

    def prepare(self, schedule: Schedule, process: Process, steps: int | None = None) -> Positions:
        return Positions(of=self.of.prepare(schedule, process, steps), weights=self.weights)

    def __call__(self, level: Level) -> Tensor:
        return self.of(level)

    def plain_weight(self, level: Level) -> Tensor:
        return self.of.plain_weight(level)

    def penalty(self, level: Level) -> Tensor | float:
        return self.of.penalty(level)

    def over_positions(self, shape: tuple[int, ...]) -> Tensor:
        v = torch.tensor(self.weights, dtype=torch.float64)
        inner = self.of.over_positions(shape)
        v = v if inner is None else v * inner
        return v / v.mean()

    def extra_repr(self) -> str:
        return f"of={self.of!r}, weights={self.weights}"

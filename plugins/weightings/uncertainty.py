"""Learned uncertainty (Karras et al. 2024): the loss of each level relative to its mean.

    loss = w e^(-u(lambda)) elbo_weight plain + u(lambda)

is minimal for e^u = the expected weighted loss at lambda (divided by the density of times): every
level then contributes the same. u is piecewise linear between knots of lambda and trained with the
network. The weighting need not be a bound; its certificate is logged.
"""

from __future__ import annotations

import torch
from elbowroom import Level, Process, Schedule, Weighting
from torch import Tensor, nn

from .paper import Elbo

_WIDEST = 16.0  # |lambda| of the outermost knots


class Uncertainty(nn.Module, Weighting):
    """The weighting ``of``, divided by the expected loss at each level."""

    def __init__(self, *, of: Weighting | None = None, knots: int = 33) -> None:
        super().__init__()
        if knots < 2:
            raise ValueError("knots must be at least 2")
        self.of = of or Elbo()
        self.u = nn.Parameter(torch.zeros(knots))

    def prepare(
        self, schedule: Schedule, process: Process, steps: int | None = None
    ) -> Uncertainty:
        self.of = self.of.prepare(schedule, process, steps)
        return self

    def __call__(self, level: Level) -> Tensor:
        return self.of(level) * torch.exp(-self.log_loss(level.log_snr))

    def plain_weight(self, level: Level) -> Tensor:
        return self.of.plain_weight(level) * torch.exp(-self.log_loss(level.log_snr))

    def penalty(self, level: Level) -> Tensor:
        return self.log_loss(level.log_snr.reshape(len(level.log_snr), -1).mean(1))

    def over_positions(self, shape: tuple[int, ...]) -> Tensor | None:
        return self.of.over_positions(shape)

    def log_loss(self, log_snr: Tensor) -> Tensor:
        """u at each lambda."""
        place = (log_snr.clamp(-_WIDEST, _WIDEST) + _WIDEST) / (2 * _WIDEST) * (len(self.u) - 1)
        below = place.detach().long().clamp(0, len(self.u) - 2)
        u = self.u.to(log_snr.dtype)
        return torch.lerp(u[below], u[below + 1], place - below)

    def extra_repr(self) -> str:
        return f"of={self.of!r}, knots={len(self.u)}"

"""Learned uncertainty (Karras et al. 2024): the loss of each level in units of itself.

    loss = w e^(-u(lambda)) elbo_weight plain + u(lambda)

is least for e^u = the expected weighted loss at lambda (over the density of times, where it is not
uniform): every level then contributes the same. u is a line through values at knots of lambda,
trained along with the network. What it is at a moment need not be a bound; its certificate is
logged.
"""

from __future__ import annotations

import torch
from elbowroom import Level, Process, Schedule, Weighting
from torch import Tensor, nn

from .paper import Elbo

_WIDEST = 16.0  # |lambda| of the outermost knots


class Uncertainty(nn.Module, Weighting):
    """The weighting ``of``, divided by the loss that is expected at each level."""

    def __init__(self, *, of: Weighting | None = None, knots: int = 33) -> None:
        super().__init__()
        if knots < 2:
            raise ValueError("knots: a line needs two at least")
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

"""A schedule whose path is learned and whose ends are another's.

    lambda(t) = base(F(t)),     F(0) = 0,  F(1) = 1

F is a line through values at even knots, which rise by the shares softmax(a); at first F(t) = t.
The parameters a are trained so that the estimator of the objective varies least
(:mod:`elbowroom.objective.learned_schedule`): time is spent where losses vary most.
"""

from __future__ import annotations

import torch
from elbowroom import Schedule
from torch import Tensor, nn


class Learned(nn.Module, Schedule):
    """The path of ``of`` at another pace, learned at ``knots`` + 1 points."""

    def __init__(self, *, of: Schedule, knots: int = 32) -> None:
        super().__init__()
        if knots < 1:
            raise ValueError("knots: one piece at least")
        self.of = of
        self.shares = nn.Parameter(torch.zeros(knots))  # of F's rise, as logits

    def log_snr(self, t: Tensor) -> Tensor:
        return self.of.log_snr(self.pace(t))

    def rate(self, t: Tensor) -> Tensor:
        return self.of.rate(self.pace(t)) * self._slope(self._piece(t, len(self.shares)), t)

    def time(self, log_snr: Tensor) -> Tensor:
        place, values = self.of.time(log_snr), self._values(log_snr)
        piece = (torch.searchsorted(values, place.contiguous()) - 1).clamp(0, len(self.shares) - 1)
        inside = (place - values[piece]) / (values[piece + 1] - values[piece])
        return ((piece + inside) / len(self.shares)).clamp(0, 1)

    def pace(self, t: Tensor) -> Tensor:
        """F(t)."""
        piece = self._piece(t, len(self.shares))
        inside = t * len(self.shares) - piece
        return torch.lerp(self._values(t)[piece], self._values(t)[piece + 1], inside)

    @staticmethod
    def _piece(t: Tensor, pieces: int) -> Tensor:
        return (t.detach() * pieces).long().clamp(0, pieces - 1)

    def _slope(self, piece: Tensor, like: Tensor) -> Tensor:
        return len(self.shares) * self.shares.to(like).softmax(0)[piece]

    def _values(self, like: Tensor) -> Tensor:
        """[knots + 1] F at the knots, its ends exact."""
        rises = self.shares.to(like).softmax(0)
        inner = rises.cumsum(0)[:-1]
        return torch.cat((inner.new_zeros(1), inner, inner.new_ones(1)))

    def extra_repr(self) -> str:
        return f"of={self.of!r}, knots={len(self.shares)}"

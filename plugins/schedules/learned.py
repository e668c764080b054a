"""A schedule whose path is learned, and its ends if they may move.

    lambda(t) = base(F(t)),     F(0) = 0,  F(1) = 1

F is a line through values at even knots, which rise by the shares softmax(a); at first F(t) = t.
The parameters a are trained so that the estimator of the objective varies least
(:mod:`elbowroom.objective.learned_schedule`): time is spent where losses vary most.

With ``learn_ends`` the base's ends are only the beginning. Its path is stretched to new ones, each
on its own side of the middle,

    lambda_max = middle + softplus(c + q b_max),     lambda_min = middle - softplus(c - q b_min),

with c such that b = 0 is the base itself. b follow the bound; they count in quarters q of the
base's length nearly, so that a rate which suits a network's weights moves an end by some units of
lambda in a thousand steps.
"""

from __future__ import annotations

import math

import torch
from elbowroom import Schedule
from torch import Tensor, nn
from torch.nn.functional import softplus


class Learned(nn.Module, Schedule):
    """The path of ``of`` at another pace, learned at ``knots`` + 1 points."""

    moved: nn.Parameter | None  # b_min, b_max

    def __init__(self, *, of: Schedule, knots: int = 32, learn_ends: bool = False) -> None:
        super().__init__()
        if knots < 1:
            raise ValueError("knots: one piece at least")
        if of.learned_ends is not None:
            raise ValueError("of: its ends are learned already: learn those of this one instead")
        self.of = of
        self.shares = nn.Parameter(torch.zeros(knots))  # of F's rise, as logits
        self.register_parameter("moved", nn.Parameter(torch.zeros(2)) if learn_ends else None)
        if learn_ends:
            self._low, self._high = _finite_ends(of)

    @property
    def learned_ends(self) -> Tensor | None:
        if self.moved is None:
            return None
        middle, half = (self._high + self._low) / 2, (self._high - self._low) / 2
        reach = half + math.log(-math.expm1(-half))  # softplus(reach) = half
        low, high = (half / 2 * self.moved.double()).unbind()
        return torch.stack((middle - softplus(reach - low), middle + softplus(reach + high)))

    def log_snr(self, t: Tensor) -> Tensor:
        return self._stretched(self.of.log_snr(self.pace(t)))

    def rate(self, t: Tensor) -> Tensor:
        rate = self.of.rate(self.pace(t)) * self._slope(self._piece(t, len(self.shares)), t)
        return rate if self.moved is None else rate * self._place()[1].to(rate)

    def time(self, log_snr: Tensor) -> Tensor:
        place, values = self.of.time(self._shrunk(log_snr)), self._values(log_snr)
        piece = (torch.searchsorted(values, place.contiguous()) - 1).clamp(0, len(self.shares) - 1)
        inside = (place - values[piece]) / (values[piece + 1] - values[piece])
        return ((piece + inside) / len(self.shares)).clamp(0, 1)

    def pace(self, t: Tensor) -> Tensor:
        """F(t)."""
        piece = self._piece(t, len(self.shares))
        inside = t * len(self.shares) - piece
        return torch.lerp(self._values(t)[piece], self._values(t)[piece + 1], inside)

    # -- from the base's ends to its own and back

    def _stretched(self, log_snr: Tensor) -> Tensor:
        if self.moved is None:
            return log_snr
        low, stretch = self._place()
        return low.to(log_snr) + (log_snr - self._low) * stretch.to(log_snr)

    def _shrunk(self, log_snr: Tensor) -> Tensor:
        if self.moved is None:
            return log_snr
        low, stretch = self._place()
        return self._low + (log_snr - low.to(log_snr)) / stretch.to(log_snr)

    def _place(self) -> tuple[Tensor, Tensor]:
        """Its least log-SNR, and how many times as long as its base it is."""
        ends = self.learned_ends
        assert ends is not None
        low, high = ends.detach().unbind()
        return low, (high - low) / (self._high - self._low)

    # -- F

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
        ends = ", learn_ends=True" if self.moved is not None else ""
        return f"of={self.of!r}, knots={len(self.shares)}{ends}"


def _finite_ends(base: Schedule) -> tuple[float, float]:
    """The base's least and largest log-SNR."""
    ends = base.log_snr(torch.tensor([1.0, 0.0], dtype=torch.float64))
    if ends.shape != (2,) or not bool(ends.isfinite().all()):
        raise ValueError(f"learn_ends: {base} has no finite ends to begin with")
    low, high = ends.tolist()
    return low, high

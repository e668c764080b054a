"""Where to measure a bound: half where the model was trained, half evenly over lambda.

The bound is the same under every schedule with the same ends, so it need not be measured with the
model's own, which may look so rarely where much is lost that a few looks decide all. With

    t(lambda) = (own t(lambda) + even t(lambda)) / 2

every level is looked at at least half as often as under either.
"""

from __future__ import annotations

import torch
from elbowroom import Schedule
from torch import Tensor

_KNOTS = 513


class HalfEven(Schedule):
    """t(lambda) is the mean of the model's own and of one that falls evenly, between the same ends.

    Joined by straight lines between knots: a schedule like any other, so the bound is exact.
    """

    def __init__(self, log_snr: Tensor, t: Tensor) -> None:
        self._log_snr, self._t = log_snr, t  # [K] float64, falling and rising

    @classmethod
    def of(cls, own: Schedule) -> Schedule:
        """For a model's schedule; that itself where its ends are infinite."""
        ends = own.log_snr(torch.tensor([0.0, 1.0], dtype=torch.float64))
        if ends.ndim != 1 or not bool(ends.isfinite().all()):
            return own
        part = torch.linspace(0, 1, _KNOTS, dtype=torch.float64)
        log_snr = ends[0] + part * (ends[1] - ends[0])
        t = (own.time(log_snr) + part) / 2
        t[0], t[-1] = 0.0, 1.0
        return cls(log_snr, t)

    def log_snr(self, t: Tensor) -> Tensor:
        k = self._segment(t)
        part = (t - self._t[k].to(t)) / (self._t[k + 1] - self._t[k]).to(t)
        return torch.lerp(self._log_snr[k].to(t), self._log_snr[k + 1].to(t), part)

    def rate(self, t: Tensor) -> Tensor:
        k = self._segment(t)
        return ((self._log_snr[k] - self._log_snr[k + 1]) / (self._t[k + 1] - self._t[k])).to(t)

    def _segment(self, t: Tensor) -> Tensor:
        """Between which knots t lies: the index of the lower one, on the CPU."""
        found = torch.searchsorted(self._t, t.detach().double().cpu(), right=True) - 1
        return found.clamp(0, _KNOTS - 2)

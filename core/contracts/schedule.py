"""Schedules: how the log signal-to-noise ratio falls with time.

A schedule is only a map t -> lambda(t), from t = 0 (data) to t = 1 (noise), strictly falling.
Everything else follows from it: the rate -lambda'(t) by forward-mode differentiation, the
inverse t(lambda) by bisection. A schedule with a closed form for either may give it; the
conformance kit checks that the two agree.

Any schedule serves any process: a process reads lambda, never t.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

_BISECTIONS = 60  # halves [0, 1] below the spacing of float64


class Schedule(ABC):
    """A strictly falling log-SNR. Give ``log_snr``; the rest follows."""

    @abstractmethod
    def log_snr(self, t: Tensor) -> Tensor:
        """lambda(t), elementwise, in the precision of ``t``."""

    def rate(self, t: Tensor) -> Tensor:
        """-lambda'(t) >= 0."""
        import torch

        t = t.contiguous()  # forward mode refuses expanded tensors
        slope: Tensor = torch.func.jvp(self.log_snr, (t,), (torch.ones_like(t),))[1]
        return -slope

    def time(self, log_snr: Tensor) -> Tensor:
        """t(lambda), the inverse; values outside the schedule's range map to 0 or 1."""
        import torch

        low, high = torch.zeros_like(log_snr), torch.ones_like(log_snr)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            still_above = self.log_snr(middle) > log_snr
            low, high = (
                torch.where(still_above, middle, low),
                torch.where(still_above, high, middle),
            )
        return (low + high) / 2

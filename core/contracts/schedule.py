"""Schedules: how the log signal-to-noise ratio falls with time.

A schedule is a map t -> lambda(t), strictly falling from t = 0 (data) to t = 1 (noise). The rest is
derived from it: the rate -lambda'(t) by forward-mode differentiation, the
inverse t(lambda) by bisection. A schedule may override either with a closed form; the conformance
kit checks that they agree.

Every schedule works with every process, since a process depends on lambda, never on t.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

_BISECTIONS = 60  # halves [0, 1] below the spacing of float64


class Schedule(ABC):
    """A strictly falling log-SNR. Define ``log_snr``.

    Example:
        >>> class Linear(Schedule):
        ...     def log_snr(self, t):
        ...         return 10 - 20 * t
    """

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

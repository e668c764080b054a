"""A part of a schedule: from one level to another, its times stretched over 0 .. 1.

Every grid serves it as it serves the whole.
"""

from __future__ import annotations

import torch
from elbowroom import IncompatibleError, Schedule
from torch import Tensor


class PartOfSchedule(Schedule):
    """What lies between two times of a schedule."""

    def __init__(self, whole: Schedule, noisy: float, clean: float) -> None:
        self.whole, self.noisy, self.clean = whole, noisy, clean  # times of its ends

    @classmethod
    def of(cls, whole: Schedule, begin: float | None, end: float | None) -> Schedule:
        """From ``begin`` to ``end`` in lambda; None: the whole's own."""
        if begin is None and end is None:
            return whole
        low, high = whole.log_snr(torch.tensor([1.0, 0.0], dtype=torch.float64)).tolist()
        begin, end = low if begin is None else begin, high if end is None else end
        if not low <= begin < end <= high:
            raise IncompatibleError(
                f"sampler.begin, sampler.end: from log-SNR {begin:.4g} to {end:.4g}; both lie "
                f"between the schedule's ends, {low:.4g} and {high:.4g}, and begin comes first"
            )
        noisy, clean = whole.time(torch.tensor([begin, end], dtype=torch.float64)).tolist()
        return cls(whole, noisy, clean)

    def log_snr(self, t: Tensor) -> Tensor:
        return self.whole.log_snr(self.clean + (self.noisy - self.clean) * t)

    def rate(self, t: Tensor) -> Tensor:
        stretched = self.noisy - self.clean
        return stretched * self.whole.rate(self.clean + stretched * t)

    def time(self, log_snr: Tensor) -> Tensor:
        return ((self.whole.time(log_snr) - self.clean) / (self.noisy - self.clean)).clamp(0, 1)

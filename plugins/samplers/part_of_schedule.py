"""A part of a schedule, from one level to another, as a schedule on 0 .. 1."""

from __future__ import annotations

import torch
from elbowroom import IncompatibleError, Schedule
from torch import Tensor

_NEAR = 1e-6  # tolerance of lambda at an end, for rounding


class PartOfSchedule(Schedule):
    """A schedule between two of its times."""

    def __init__(self, whole: Schedule, noisy: float, clean: float) -> None:
        self.whole, self.noisy, self.clean = whole, noisy, clean  # times of its ends

    @classmethod
    def of(cls, whole: Schedule, begin: float | None, end: float | None) -> PartOfSchedule:
        """The part from ``begin`` to ``end`` in lambda; None means the schedule's end."""
        low, high = whole.log_snr(torch.tensor([1.0, 0.0], dtype=torch.float64)).tolist()
        first, last = low if begin is None else begin, high if end is None else end
        if not low - _NEAR <= first < last <= high + _NEAR:
            raise IncompatibleError(
                f"sampler.begin, sampler.end: log-SNR {first:.4g} to {last:.4g} is not an interval "
                f"between the schedule's ends, {low:.4g} and {high:.4g}"
            )
        times = whole.time(torch.tensor([first, last], dtype=torch.float64)).tolist()
        return cls(whole, 1.0 if begin is None else times[0], 0.0 if end is None else times[1])

    def in_whole(self, t: Tensor) -> Tensor:
        """The time in the whole schedule."""
        return self.clean + (self.noisy - self.clean) * t

    def log_snr(self, t: Tensor) -> Tensor:
        return self.whole.log_snr(self.in_whole(t))

    def rate(self, t: Tensor) -> Tensor:
        return (self.noisy - self.clean) * self.whole.rate(self.in_whole(t))

    def time(self, log_snr: Tensor) -> Tensor:
        return ((self.whole.time(log_snr) - self.clean) / (self.noisy - self.clean)).clamp(0, 1)

"""Rate schedules: the learning rate over a run.

A run of N updates with a warm-up of W begins with a straight line; a schedule says the rest:

    rate(n) = base n / W                      n < W
    rate(n) = schedule(base, n - W, N - W)    otherwise

n counts updates from 0, so the first update of a run with a warm-up moves nothing but the
optimiser's moments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod


class RateSchedule(ABC):
    """The learning rate after the warm-up."""

    @abstractmethod
    def __call__(self, base: float, n: int, steps: int) -> float:
        """The rate of update ``n`` of ``steps``, which begin with ``base``."""

    def rate(self, base: float, n: int, warmup: int, steps: int) -> float:
        """The rate of update ``n`` of a run, its warm-up included; 0 once the run is over."""
        if n < warmup:
            return base * n / warmup
        if n >= steps:
            return 0.0
        return self(base, n - warmup, steps - warmup)

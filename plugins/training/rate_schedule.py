"""Rate schedules: the learning rate over a run.

A run of N updates with a warm-up of W updates has the learning rate

    rate(n) = base n / W                      n < W
    rate(n) = schedule(base, n - W, N - W)    otherwise

n counts updates from 0, so the first update of a run with a warm-up changes only the optimiser's
moments.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import attrs
from attrs.validators import and_, gt, le


class RateSchedule(ABC):
    """The learning rate after the warm-up."""

    @abstractmethod
    def __call__(self, base: float, n: int, steps: int) -> float:
        """Return the rate of update ``n`` of ``steps``; ``base`` is the rate at the start."""

    def rate(self, base: float, n: int, warmup: int, steps: int) -> float:
        """Return the rate of update ``n`` of a run including its warm-up; 0 after its end."""
        if n < warmup:
            return base * n / warmup
        if n >= steps:
            return 0.0
        return self(base, n - warmup, steps - warmup)


@attrs.frozen
class Constant(RateSchedule):
    """The same rate to the end."""

    def __call__(self, base: float, n: int, steps: int) -> float:
        return base


@attrs.frozen
class Cosine(RateSchedule):
    """Half a cosine down to zero: base (1 + cos(pi n / N)) / 2."""

    def __call__(self, base: float, n: int, steps: int) -> float:
        return base * 0.5 * (1 + math.cos(math.pi * n / steps))


@attrs.frozen
class WarmupStableDecay(RateSchedule):
    """Constant, then linear down to zero over the last ``decay`` of the run.

    Before the decay an update does not depend on the number of steps, so a run can be extended.
    """

    decay: float = attrs.field(default=0.2, validator=and_(gt(0), le(1)))

    def __call__(self, base: float, n: int, steps: int) -> float:
        left = (steps - n) / (self.decay * steps)
        return base * min(1.0, left)

"""The learning rate after the warm-up, update n of N, with the base rate b:

cosine                b (1 + cos(pi n/N)) / 2
constant              b
warmup-stable-decay   b, then a straight line down to 0 over the last share of the run
"""

from __future__ import annotations

import math

import attrs
from attrs.validators import and_, gt, le
from elbowroom import RateSchedule


@attrs.frozen
class Cosine(RateSchedule):
    """Half a cosine down to zero."""

    def __call__(self, base: float, n: int, steps: int) -> float:
        return base * 0.5 * (1 + math.cos(math.pi * n / steps))


@attrs.frozen
class Constant(RateSchedule):
    """The same rate to the end."""

    def __call__(self, base: float, n: int, steps: int) -> float:
        return base


@attrs.frozen
class WarmupStableDecay(RateSchedule):
    """Constant, then straight down to zero over the last ``decay`` of the run.

    Until the decay begins a run does not depend on how long it will be, so it can be lengthened.
    """

    decay: float = attrs.field(default=0.2, validator=and_(gt(0), le(1)))

    def __call__(self, base: float, n: int, steps: int) -> float:
        left = (steps - n) / (self.decay * steps)
        return base * min(1.0, left)

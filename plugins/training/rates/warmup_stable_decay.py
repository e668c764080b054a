"""Warm-up, stable, decay: a constant rate, then a straight line down to zero.

Until the decay begins a run does not depend on how long it will be, so it can be lengthened.
"""

from __future__ import annotations

import attrs
from attrs.validators import and_, gt, le

from ..rate_schedule import RateSchedule


@attrs.frozen
class WarmupStableDecay(RateSchedule):
    """Constant, then straight down to zero over the last ``decay`` of the run."""

    decay: float = attrs.field(default=0.2, validator=and_(gt(0), le(1)))

    def __call__(self, base: float, n: int, steps: int) -> float:
        left = (steps - n) / (self.decay * steps)
        return base * min(1.0, left)

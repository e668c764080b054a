"""Half a cosine down to zero: b (1 + cos(pi n/N)) / 2 at update n of N after the warm-up."""

from __future__ import annotations

import math

import attrs

from ..rate_schedule import RateSchedule


@attrs.frozen
class Cosine(RateSchedule):
    """Half a cosine down to zero."""

    def __call__(self, base: float, n: int, steps: int) -> float:
        return base * 0.5 * (1 + math.cos(math.pi * n / steps))

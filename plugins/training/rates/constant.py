"""The same learning rate from the warm-up to the end."""

from __future__ import annotations

import attrs

from ..rate_schedule import RateSchedule


@attrs.frozen
class Constant(RateSchedule):
    """The same rate to the end."""

    def __call__(self, base: float, n: int, steps: int) -> float:
        return base

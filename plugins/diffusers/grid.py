"""``scheduler``: the levels that a scheduler of diffusers chooses itself."""

from __future__ import annotations

import attrs
from elbowroom import EvenGrid


@attrs.frozen
class SchedulerGrid(EvenGrid):
    """The scheduler's levels for the sampler ``diffusers``; an even grid for any other."""

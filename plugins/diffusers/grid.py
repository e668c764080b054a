"""``scheduler``: the levels that a scheduler of diffusers places itself."""

from __future__ import annotations

import attrs
from elbowroom import EvenGrid


@attrs.frozen
class SchedulersOwn(EvenGrid):
    """Its own for the sampler ``diffusers``, by whichever spacing it has; even for any other."""

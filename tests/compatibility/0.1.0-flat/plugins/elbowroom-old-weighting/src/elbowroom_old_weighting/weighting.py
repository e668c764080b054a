"""A power of the noise share as weighting.

    w(lambda) = (1 - s)^power,    s = sigmoid(lambda)

It reads lambda alone, so it means the same under every schedule, and it does not fall towards the
noise, so the objective is a variational bound (Shi & Titsias, theorem 2). power = 0 is the ELBO.
"""

from __future__ import annotations

import attrs
from elbowroom import Level, Weighting
from torch import Tensor


@attrs.frozen
class OldWeighting(Weighting):
    """(1 - s)^power."""

    power: float = attrs.field(default=1.0, validator=attrs.validators.ge(0))

    def __call__(self, level: Level) -> Tensor:
        return level.noise_share**self.power

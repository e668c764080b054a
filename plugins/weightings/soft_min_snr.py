"""Soft Min-SNR: a smooth form of Min-SNR, with less weight on nearly clean data.

    weight on the plain loss   gamma / (SNR + gamma) = sigmoid(log gamma - lambda)

Min-SNR (Hang et al. 2023) has min(SNR, gamma) / SNR instead. As a weight on the plain loss at
uniform times it depends on the schedule, as ``simple`` does.
"""

from __future__ import annotations

import math

import attrs
from elbowroom import Level, Weighting
from torch import Tensor


@attrs.frozen
class SoftMinSNR(Weighting):
    """A plain loss weighted by gamma / (SNR + gamma)."""

    gamma: float = attrs.field(default=5.0, validator=attrs.validators.gt(0))

    def __call__(self, level: Level) -> Tensor:
        return self.plain_weight(level) / level.elbo_weight

    def plain_weight(self, level: Level) -> Tensor:
        # NaN without a schedule, which defines the uniform times
        return (math.log(self.gamma) - level.log_snr).sigmoid() + 0 * level.t

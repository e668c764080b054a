"""Logit-normal times (Esser et al. 2024): t = sigmoid(mean + std n), n standard normal.

    p(t) = N(logit t; mean, std^2) / (t (1 - t))

Pure logit-normal times almost never visit the ends, where 1/p explodes; a share ``uniform`` of
times is drawn uniformly, which bounds 1/p by 1/uniform. Strata are kept in both parts.
"""

from __future__ import annotations

import math

import attrs
import torch
from elbowroom import Noise, TimeSampler, stratified
from torch import Tensor


@attrs.frozen
class LogitNormal(TimeSampler):
    """Most times in the middle."""

    mean: float = 0.0
    std: float = attrs.field(default=1.0, validator=attrs.validators.gt(0))
    uniform: float = attrs.field(
        default=0.1, validator=[attrs.validators.gt(0), attrs.validators.le(1)]
    )

    def draw(self, noise: Noise) -> tuple[Tensor, Tensor]:
        u = stratified(noise)
        rest = (1 - self.uniform) or 1.0  # uniform = 1 leaves no other part
        middle = (self.mean + self.std * torch.special.ndtri((u - self.uniform) / rest)).sigmoid()
        t = torch.where(u < self.uniform, u / self.uniform, middle)
        return t, self.density(t)

    def density(self, t: Tensor) -> Tensor:
        """The mixture's density at t."""
        n = (t.logit() - self.mean) / self.std
        peak = (-(n**2) / 2).exp() / (self.std * math.sqrt(2 * math.pi))
        return self.uniform + (1 - self.uniform) * (peak / (t * (1 - t))).nan_to_num(0.0)

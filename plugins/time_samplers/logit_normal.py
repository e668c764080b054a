"""Logit-normal times (Esser et al. 2024): t = sigmoid(mean + std n), n standard normal.

    p(t) = N(logit t; mean, std^2) / (t (1 - t))

Pure logit-normal times are rare near the ends, where 1/p diverges; a fraction ``uniform`` of times
is drawn uniformly, which bounds 1/p by 1/uniform. Both parts are stratified.
"""

from __future__ import annotations

import math

import attrs
import torch
from elbowroom import Noise, TimeSampler, stratified
from torch import Tensor


@attrs.frozen
class LogitNormal(TimeSampler):
    """Logit-normal density, mixed with a uniform one."""

    mean: float = 0.0
    std: float = attrs.field(default=1.0, validator=attrs.validators.gt(0))
    uniform: float = attrs.field(
        default=0.1, validator=[attrs.validators.gt(0), attrs.validators.le(1)]
    )

    def draw(self, noise: Noise) -> tuple[Tensor, Tensor]:
        u = stratified(noise)
        rest = (1 - self.uniform) or 1.0  # avoids 0 / 0 for uniform = 1
        middle = (self.mean + self.std * torch.special.ndtri((u - self.uniform) / rest)).sigmoid()
        t = torch.where(u < self.uniform, u / self.uniform, middle)
        return t, self.density(t)

    def density(self, t: Tensor) -> Tensor:
        """The mixture's density at t."""
        n = (t.logit() - self.mean) / self.std
        peak = (-(n**2) / 2).exp() / (self.std * math.sqrt(2 * math.pi))
        return self.uniform + (1 - self.uniform) * (peak / (t * (1 - t))).nan_to_num(0.0)

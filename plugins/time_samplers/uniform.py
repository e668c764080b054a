"""Times of uniform density: stratified over the batch, or independent."""

from __future__ import annotations

import attrs
import torch
from elbowroom import Noise, TimeSampler, stratified
from torch import Tensor


@attrs.frozen
class Stratified(TimeSampler):
    """t_i = (t_0 + i/B) mod 1 over the global batch, one t_0 per step (MD4, VDM)."""

    def draw(self, noise: Noise) -> tuple[Tensor, Tensor]:
        t = stratified(noise)
        return t, torch.ones_like(t)


@attrs.frozen
class Uniform(TimeSampler):
    """t ~ U(0, 1), independent for each sample."""

    def draw(self, noise: Noise) -> tuple[Tensor, Tensor]:
        t = noise.uniform("time")
        return t, torch.ones_like(t)

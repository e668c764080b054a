"""Pairs: each example of a batch is looked at twice, with noise and its mirror image.

The two looks of a pair share example and label. Uniforms are u and 1 - u, normals e and -e.

antithetic      one time for both. Where less than half is visible, no token is visible in both
                looks; where more is, none is hidden in both. Gaussian noise cancels in their mean.
complementary   times t and 1 - t. Where the schedule's share of visible tokens at 1 - t is one
                minus that at t (``linear``), what one look hides the other shows.

A batch of B then holds B/2 examples, and its times B/2 strata.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import torch
from elbowroom import Noise, TimeSampler, stratified
from torch import Tensor


@attrs.frozen
class Antithetic(TimeSampler):
    """Both looks of a pair at one time, the times of pairs spread evenly."""

    paired: ClassVar[bool] = True

    def draw(self, noise: Noise) -> tuple[Tensor, Tensor]:
        t = stratified(noise)
        return t, torch.ones_like(t)


@attrs.frozen
class Complementary(TimeSampler):
    """One look of a pair at t, the other at 1 - t, the times of pairs spread evenly."""

    paired: ClassVar[bool] = True

    def draw(self, noise: Noise) -> tuple[Tensor, Tensor]:
        t = stratified(noise)
        if noise.mirrored is not None:
            t = torch.where(noise.mirrored, 1 - t, t)
        return t, torch.ones_like(t)

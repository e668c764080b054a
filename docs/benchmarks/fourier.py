"""A uvit that also sees sin and cos of z at one and two spacings of the data's values (VDM).

The rows *v with Fourier features* of docs/results.md:

    elbowroom compare digits 'denoiser=docs/benchmarks/fourier.py:FourierUViT' \
        train.milestones=[250,500] 'process={name: gaussian, predict: v}' \
        --vary weighting=sigmoid,elbo --seeds 1
"""

from __future__ import annotations

import math

import torch
from elbowroom import Signature
from elbowroom.plugins.denoisers.layers import Conv2d
from elbowroom.plugins.denoisers.uvit import UViT
from elbowroom.plugins.denoisers.values import Values
from torch import Tensor


class FourierValues(Values):
    """z, and sin and cos of each frequency times z."""

    def __init__(self, signature: Signature, embedding: int, frequencies: tuple[float, ...]):
        super().__init__(signature, embedding)
        self.frequencies = frequencies
        self.features *= 1 + 2 * len(frequencies)

    def forward(self, z: Tensor) -> Tensor:
        h = super().forward(z)
        waves = (wave(f * h) for f in self.frequencies for wave in (torch.sin, torch.cos))
        return torch.cat([h, *waves], -1)


class FourierUViT(UViT):
    """The network of docs/results.md with these features at its input."""

    def __init__(
        self,
        signature: Signature,
        *,
        width: int = 96,
        depth: int = 3,
        channels: int = 32,
        levels: int = 17,
    ):
        super().__init__(signature, width=width, depth=depth, channels=channels)
        frequencies = (math.pi * levels / 2, math.pi * levels)
        self.values = FourierValues(signature, channels, frequencies)
        self.stem = Conv2d(self.values.features, channels, 3)

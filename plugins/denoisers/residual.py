"""Residual blocks (He et al. 2016) whose norms are told the condition.

A conditional group norm is norm(x) (1 + scale) + shift, scale and shift linear in the condition
and zero at first; a block is

    x  ->  skip(x) + conv(dropout(SiLU(cgn(conv(SiLU(cgn(x)))))))

with 3x3 convolutions, the second zero at first, and a skip that is the identity, or a 1x1
convolution where the number of channels changes.
"""

from __future__ import annotations

import math

import torch.nn.functional as F
from elbowroom import ConfigError
from torch import Tensor, nn

from .layers import Conv2d


def groups_of(channels: int, groups: int | None) -> int:
    """Default: 32, or as many of them as divide the channels evenly."""
    if groups is None:
        return math.gcd(32, channels)
    if groups < 1 or channels % groups:
        raise ConfigError(
            f"groups: {channels} channels do not divide into {groups} groups; allowed are "
            f"{', '.join(str(n) for n in range(1, channels + 1) if not channels % n)}"
        )
    return groups


def conditional_group_norm(x: Tensor, told: Tensor, groups: int) -> Tensor:
    """norm(x) (1 + scale) + shift, with x [B, C, H, W] and told = [scale, shift] [B, 2 C].

    Samples are taken as further channels of one image, so that the norm's own kernel applies a
    scale and a shift that differ from sample to sample, in one pass over x.
    """
    batch, channels, *size = x.shape
    scale, shift = told.chunk(2, dim=1)  # [B, C]
    image = x.reshape(1, batch * channels, *size)
    weight, bias = (1 + scale).reshape(-1), shift.reshape(-1)  # [B C]
    return F.group_norm(image, batch * groups, weight, bias, eps=1e-6).view_as(x)


class ResidualBlock(nn.Module):
    """One block of the module's text; ``told`` holds 2 (in + out) numbers for its two norms."""

    def __init__(self, in_channels: int, out_channels: int, *, groups: int, dropout: float) -> None:
        super().__init__()
        self.groups, self.dropout = groups, dropout
        self.split = [2 * in_channels, 2 * out_channels]
        self.first = Conv2d(in_channels, out_channels, 3)
        self.second = Conv2d(out_channels, out_channels, 3, gain=0)
        self.skip = None if in_channels == out_channels else Conv2d(in_channels, out_channels, 1)

    @property
    def told_width(self) -> int:
        """How many numbers the block must be told."""
        return sum(self.split)

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        """[B, in, H, W], [B, told_width] -> [B, out, H, W]."""
        first, second = told.split_with_sizes(self.split, dim=1)
        h = self.first(F.silu(conditional_group_norm(x, first, self.groups)))
        h = F.silu(conditional_group_norm(h, second, self.groups))
        out: Tensor = self.second(F.dropout(h, self.dropout, self.training))
        return out + (x if self.skip is None else self.skip(x))

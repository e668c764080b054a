"""Residual blocks (He et al. 2016) with conditional norms.

A conditional group norm is norm(x) (1 + scale) + shift, scale and shift linear in the condition
and zero at first; a block is

    x  ->  skip(x) + conv(dropout(SiLU(cgn(conv(SiLU(cgn(x)))))))

with 3x3 convolutions, the second zero at first, and the identity as skip, or a 1x1 convolution
where the number of channels changes.
"""

from __future__ import annotations

import math

import torch.nn.functional as F
from elbowroom import ConfigError
from torch import Tensor, nn

from .layers import Conv2d


def groups_of(channels: int, groups: int | None) -> int:
    """The number of groups; default: the greatest common divisor of 32 and the channels."""
    if groups is None:
        return math.gcd(32, channels)
    if groups < 1 or channels % groups:
        raise ConfigError(
            f"groups: {channels} channels do not divide into {groups} groups; allowed are "
            f"{', '.join(str(n) for n in range(1, channels + 1) if not channels % n)}"
        )
    return groups


def conditional_group_norm(x: Tensor, modulation: Tensor, groups: int) -> Tensor:
    """norm(x) (1 + scale) + shift, with x [B, C, H, W] and modulation = [scale, shift] [B, 2 C].

    The batch is folded into the channels of one image, so that one kernel applies the scale and
    shift of each sample.
    """
    batch, channels, *size = x.shape
    scale, shift = modulation.chunk(2, dim=1)  # [B, C]
    image = x.reshape(1, batch * channels, *size)
    weight, bias = (1 + scale).reshape(-1), shift.reshape(-1)  # [B C]
    return F.group_norm(image, batch * groups, weight, bias, eps=1e-6).view_as(x)


class ResidualBlock(nn.Module):
    """One residual block; ``modulation`` has 2 (in + out) values for its two norms."""

    def __init__(self, in_channels: int, out_channels: int, *, groups: int, dropout: float) -> None:
        super().__init__()
        self.groups, self.dropout = groups, dropout
        self.split = [2 * in_channels, 2 * out_channels]
        self.first = Conv2d(in_channels, out_channels, 3)
        self.second = Conv2d(out_channels, out_channels, 3, gain=0)
        self.skip = None if in_channels == out_channels else Conv2d(in_channels, out_channels, 1)

    @property
    def modulation_width(self) -> int:
        """The number of values of the block's modulation."""
        return sum(self.split)

    def forward(self, x: Tensor, modulation: Tensor) -> Tensor:
        """[B, in, H, W], [B, modulation_width] -> [B, out, H, W]."""
        first, second = modulation.split_with_sizes(self.split, dim=1)
        h = self.first(F.silu(conditional_group_norm(x, first, self.groups)))
        h = F.silu(conditional_group_norm(h, second, self.groups))
        out: Tensor = self.second(F.dropout(h, self.dropout, self.training))
        return out + (x if self.skip is None else self.skip(x))

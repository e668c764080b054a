"""Layers with the paper's initialisation.

Weights are drawn from a normal truncated at two standard deviations, scaled to have the standard
deviation

    gain / sqrt(fan_in),

where ``gain = 0`` means zeros. Biases are zero at first; embeddings are normal with standard
deviation 1 / sqrt(features).

Every layer has ``reset_parameters()``, so a network built on the meta device is initialised by
``network.to_empty(device=...)`` and that call on each of its modules.
"""

from __future__ import annotations

import math

import torch
from torch import nn

CUT = 0.87962566103423978
"""The standard deviation of a standard normal truncated at -2 and 2."""


def init_normal_(weight: torch.Tensor, std: float) -> None:
    """Fill with the truncated normal of this standard deviation, or with zeros."""
    if std == 0:
        nn.init.zeros_(weight)
    else:
        wide = std / CUT
        nn.init.trunc_normal_(weight, std=wide, a=-2 * wide, b=2 * wide)


class Linear(nn.Linear):
    """``nn.Linear`` with this module's initialisation."""

    def __init__(
        self, in_features: int, out_features: int, *, bias: bool = True, gain: float = 1.0
    ) -> None:
        self.gain = gain  # before super().__init__, which calls reset_parameters
        super().__init__(in_features, out_features, bias=bias)

    def reset_parameters(self) -> None:
        """Initialise."""
        init_normal_(self.weight, self.gain / math.sqrt(self.in_features))
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class Conv2d(nn.Conv2d):
    """A convolution that keeps the size, with this module's initialisation."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel: int, *, gain: float = 1.0
    ) -> None:
        self.gain = gain
        super().__init__(in_channels, out_channels, kernel, padding=kernel // 2)

    def reset_parameters(self) -> None:
        """Initialise."""
        init_normal_(self.weight, self.gain / math.sqrt(self.weight[0].numel()))
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class Embedding(nn.Embedding):
    """``nn.Embedding`` with this module's initialisation."""

    def reset_parameters(self) -> None:
        """Initialise."""
        nn.init.normal_(self.weight, std=1 / math.sqrt(self.embedding_dim))

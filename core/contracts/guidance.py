"""Guidance: a denoiser that is pushed towards what its condition says.

A guidance wraps a denoiser into another one of the same signature, so every sampler and every
process can be guided the same way. It costs what it costs: the calls of a sampler are counted as
calls of the guided network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


class Guidance(ABC):
    """How a denoiser is guided."""

    @abstractmethod
    def __call__(self, denoiser: nn.Module, classes: int | None) -> nn.Module:
        """The guided network; ``classes`` is how many labels the data have, if any."""

"""Time samplers: the distribution of training times.

A time sampler draws times with a known density. The objective divides by the density, so every time
sampler estimates the same objective without bias; only the variance differs.

Stratified uniforms u_i = (u_0 + i/B) mod 1 cover the global batch evenly, with one u_0 per step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from ..randomness.noise import Noise


class TimeSampler(ABC):
    """A distribution of training times. Define ``draw``."""

    @abstractmethod
    def draw(self, noise: Noise) -> tuple[Tensor, Tensor]:
        """(t, density), each [B] float64, for the samples of ``noise``."""

    def prepare(self, plain_weight: Callable[[Tensor], Tensor]) -> TimeSampler:
        """The sampler for this weight on the plain loss at t (default: itself)."""
        return self


def stratified(noise: Noise, label: str = "time") -> Tensor:
    """Return evenly spaced times with one random offset, [B] float64.

    Args:
        noise: Source of random numbers; sample i of its global batch of B has (u_0 + i/B) mod 1.
        label: Key of the offset u_0.
    """
    return (noise.shared_uniform(label) + noise.positions.double() / noise.total) % 1

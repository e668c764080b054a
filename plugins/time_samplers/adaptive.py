"""Adaptive times: draw more often where the loss has a larger variance.

With g the weighted loss of an example at time t before it is divided by the density p(t), g / p is
an unbiased estimate for every p > 0. Stratified times remove the variance between times, and the
remaining variance,

    int Var[g | t] / p(t) dt,      is least for      p(t) proportional to sqrt(Var[g | t]).

The moments of g are exponentially averaged in bins of t, and the density is mixed with a uniform
part, which bounds 1/p:

    p(bin) = uniform + (1 - uniform) * s_bin / mean s
    s = sqrt(Var[g | bin])        adaptive
    s = E[elbo | bin]             information: equal shares of the bound, whatever the weighting

The variance of the loss is used as a proxy for that of its gradient.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import torch
from elbowroom import Adaptive, Losses, Noise, TimeSampler
from elbowroom.contracts import sums_by_time
from torch import Tensor, nn

from .piecewise import draw_piecewise

_ENOUGH = 8.0  # draws before a bin is used


class _Binned(nn.Module, TimeSampler, Adaptive):
    """Moments of a loss in bins of t, and the density computed from them."""

    sums: Tensor  # [bins, 3] counts, sums of losses and of squares; float64
    density: Tensor  # [bins] of mean 1, float64

    def __init__(self, *, bins: int = 64, uniform: float = 0.2, memory: int = 300) -> None:
        super().__init__()
        if bins < 1 or memory < 1 or not 0 < uniform <= 1:
            raise ValueError("bins and memory are at least 1, uniform is in (0, 1]")
        self.uniform, self.memory = uniform, memory
        self.register_buffer("sums", torch.zeros(bins, 3, dtype=torch.float64))
        self.register_buffer("density", torch.ones(bins, dtype=torch.float64))

    def draw(self, noise: Noise) -> tuple[Tensor, Tensor]:
        return draw_piecewise(noise, self.density)

    def statistics(self, losses: Losses) -> Tensor:
        g = self._loss(losses).double() * losses.density
        return sums_by_time(losses.time, len(self.density), g, g**2)

    def adapt(self, found: Tensor) -> None:
        self.sums.mul_(1 - 1 / self.memory).add_(found)
        count, first, second = self.sums.unbind(1)
        known = count >= _ENOUGH
        target = torch.where(known, self._target(count.clamp(min=1), first, second), 0)
        mean = target.sum() / known.sum().clamp(min=1)
        target = torch.where(known, target, mean)  # bins with few draws get the mean
        flat = target.mean() <= 0
        share = torch.where(flat, 1.0, target / torch.where(flat, 1.0, target.mean()))
        self.density.copy_(self.uniform + (1 - self.uniform) * share)

    def curves(self) -> Mapping[str, tuple[Tensor, Tensor]]:
        bins = len(self.density)
        return {"time_density": ((torch.arange(bins) + 0.5) / bins, self.density.cpu())}

    @abstractmethod
    def _loss(self, losses: Losses) -> Tensor:
        """[B] the loss, divided by the density, whose moments are summed."""

    @abstractmethod
    def _target(self, count: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """[bins] the unnormalised density, from count and sums of losses and squares."""

    def extra_repr(self) -> str:
        return f"bins={len(self.density)}, uniform={self.uniform}, memory={self.memory}"


class AdaptiveTimes(_Binned):
    """Density proportional to the standard deviation of the loss."""

    def _loss(self, losses: Losses) -> Tensor:
        return losses.per_example

    def _target(self, count: Tensor, first: Tensor, second: Tensor) -> Tensor:
        return (second / count - (first / count) ** 2).clamp(min=0).sqrt()


class InformationTimes(_Binned):
    """Density proportional to the ELBO's loss: equal shares of the bound."""

    def _loss(self, losses: Losses) -> Tensor:
        return losses.elbo

    def _target(self, count: Tensor, first: Tensor, second: Tensor) -> Tensor:
        return (first / count).clamp(min=0)

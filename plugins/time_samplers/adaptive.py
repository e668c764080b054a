"""Times that adapt: look more often where a look says less.

With g the weighted loss of an example at time t before it is divided by the density p(t), g / p is
an unbiased estimate for every p > 0. Stratified times remove the variance between times, and what
is left of it,

    int Var[g | t] / p(t) dt,      is least for      p(t) proportional to sqrt(Var[g | t]).

The moments of g are summed in bins of t, older steps count less and less, and the density is mixed
with a uniform part, which bounds 1/p:

    p(bin) = uniform + (1 - uniform) * s_bin / mean s
    s = sqrt(Var[g | bin])        adaptive
    s = E[elbo | bin]             information: equal shares of the bound, whatever the weighting

The loss is a stand-in for its gradient, whose variance is what training feels.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import torch
from elbowroom import Adaptive, Losses, Noise, TimeSampler
from elbowroom.contracts import sums_by_time
from torch import Tensor, nn

from .piecewise import draw_piecewise

_ENOUGH = 8.0  # looks into a bin before it is believed


class _Binned(nn.Module, TimeSampler, Adaptive):
    """Sums of a loss and its square in bins of t, and the density that follows from them."""

    sums: Tensor  # [bins, 3] looks, their losses, the squares; float64
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
        looks, first, second = self.sums.unbind(1)
        known = looks >= _ENOUGH
        sought = torch.where(known, self._sought(looks.clamp(min=1), first, second), 0)
        usual = sought.sum() / known.sum().clamp(min=1)
        sought = torch.where(known, sought, usual)  # a bin seldom seen is taken for a usual one
        flat = sought.mean() <= 0
        share = torch.where(flat, 1.0, sought / torch.where(flat, 1.0, sought.mean()))
        self.density.copy_(self.uniform + (1 - self.uniform) * share)

    def curves(self) -> Mapping[str, tuple[Tensor, Tensor]]:
        bins = len(self.density)
        return {"time_density": ((torch.arange(bins) + 0.5) / bins, self.density.cpu())}

    @abstractmethod
    def _loss(self, losses: Losses) -> Tensor:
        """[B] whose moments are kept, divided by the density."""

    @abstractmethod
    def _sought(self, looks: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """[bins] what the density is to be proportional to, from sums over looks."""

    def extra_repr(self) -> str:
        return f"bins={len(self.density)}, uniform={self.uniform}, memory={self.memory}"


class AdaptiveTimes(_Binned):
    """Times in proportion to the standard deviation of the loss there."""

    def _loss(self, losses: Losses) -> Tensor:
        return losses.per_example

    def _sought(self, looks: Tensor, first: Tensor, second: Tensor) -> Tensor:
        return (second / looks - (first / looks) ** 2).clamp(min=0).sqrt()


class InformationTimes(_Binned):
    """Times in proportion to the ELBO's loss there: equal shares of the bound."""

    def _loss(self, losses: Losses) -> Tensor:
        return losses.elbo

    def _sought(self, looks: Tensor, first: Tensor, second: Tensor) -> Tensor:
        return (first / looks).clamp(min=0)

"""Importance sampling of times by the weight of the objective.

The density follows the objective's weight on the plain loss, tabulated on a grid and mixed with
a uniform part:

    p(t) = uniform + (1 - uniform) * plain_weight(bin of t) / mean plain_weight

p is piecewise constant, so drawing from it and dividing by it are exact: the objective does not
change, only the variance of its estimate.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import torch
from elbowroom import Noise, TimeSampler
from torch import Tensor

from .piecewise import draw_piecewise


@attrs.frozen(eq=False)
class Importance(TimeSampler):
    """Density proportional to the objective's weight."""

    bins: int = attrs.field(default=256, validator=attrs.validators.ge(1))
    uniform: float = attrs.field(
        default=0.1, validator=[attrs.validators.gt(0), attrs.validators.le(1)]
    )
    _density: Tensor | None = attrs.field(default=None, init=False, repr=False)  # [bins]

    @torch.no_grad()  # a learned weight is used as it is initially
    def prepare(self, plain_weight: Callable[[Tensor], Tensor]) -> Importance:
        middles = (torch.arange(self.bins, dtype=torch.float64) + 0.5) / self.bins
        weight = plain_weight(middles).double().abs()
        density = self.uniform + (1 - self.uniform) * weight / weight.mean()
        prepared = Importance(self.bins, self.uniform)
        object.__setattr__(prepared, "_density", density / density.mean())
        return prepared

    def draw(self, noise: Noise) -> tuple[Tensor, Tensor]:
        if self._density is None:
            raise RuntimeError("Importance needs prepare(plain_weight) before draw")
        return draw_piecewise(noise, self._density)

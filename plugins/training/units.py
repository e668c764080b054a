"""Losses per unit that was asked for, as masked image models do."""

from __future__ import annotations

from collections.abc import Callable

import attrs
from elbowroom import Normaliser
from torch import Tensor


@attrs.frozen
class UnitMean(Normaliser):
    """The number of units asked for in the global batch (hidden tokens, or all dimensions)."""

    def __call__(
        self, losses: Tensor, units: Tensor, mean_over_ranks: Callable[[Tensor], Tensor]
    ) -> Tensor:
        asked = mean_over_ranks(units.sum().to(losses.dtype))
        return losses.sum() / asked.clamp(min=1)  # a batch that hides nothing asks for nothing

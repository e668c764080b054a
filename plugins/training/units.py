"""Loss per predicted element, as in masked image models."""

from __future__ import annotations

from collections.abc import Callable

import attrs
from elbowroom import Normaliser
from torch import Tensor


@attrs.frozen
class UnitMean(Normaliser):
    """Divide by the number of predicted elements in the global batch (masked tokens, or all)."""

    def __call__(
        self, losses: Tensor, units: Tensor, mean_over_ranks: Callable[[Tensor], Tensor]
    ) -> Tensor:
        predicted = mean_over_ranks(units.sum().to(losses.dtype))
        return losses.sum() / predicted.clamp(min=1)  # a batch may have none

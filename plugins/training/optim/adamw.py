"""AdamW (Loshchilov & Hutter 2019): moments of the gradient, weight decay beside them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import torch
from torch import nn

from ..optimiser import Optimiser, Rates, Weights, layouts


@attrs.frozen
class AdamW(Optimiser):
    """Every weight by torch's fused AdamW, with ``train.betas`` and ``train.weight_decay``."""

    def build(self, weights: Weights, rates: Rates) -> list[torch.optim.Optimizer]:
        return [fused_adamw(weights.every, rates)]


def fused_adamw(parameters: Sequence[nn.Parameter], rates: Rates) -> torch.optim.Optimizer:
    """torch's own, in one kernel for each layout of parameters."""
    return torch.optim.AdamW(
        [{"params": group} for group in layouts(parameters)],
        lr=rates.learning_rate,
        betas=rates.betas,
        weight_decay=rates.weight_decay,
        fused=True,
    )

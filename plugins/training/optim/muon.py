"""Muon (Jordan et al. 2024): weights of hidden layers move by the nearest orthogonal matrix.

The momentum of a matrix's gradient, U S V^T, is replaced by about U V^T (five Newton-Schulz
rounds), so that every direction moves alike. The update is scaled by 0.2 sqrt(max(out, in)), which
gives it the size that AdamW's have (Liu et al. 2025): rates and weight decay found for AdamW can be
kept.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import torch
from attrs.validators import and_, ge, gt, lt
from elbowroom import IncompatibleError

from ..optimiser import Optimiser, Rates, Weights
from .adamw import fused_adamw
from .orthogonal import OrthogonalSteps


@attrs.frozen
class Muon(Optimiser):
    """Orthogonal steps for matrices and filters of hidden layers, fused AdamW for the rest.

    ``rate`` is their learning rate as a multiple of ``train.learning_rate``.
    """

    sharded: ClassVar[bool] = False  # a matrix is orthogonalised whole

    rate: float = attrs.field(default=1.0, validator=gt(0))
    momentum: float = attrs.field(default=0.95, validator=and_(ge(0), lt(1)))
    nesterov: bool = True
    iterations: int = attrs.field(default=5, validator=and_(ge(1), lt(100)))  # of Newton-Schulz

    def build(self, weights: Weights, rates: Rates) -> list[torch.optim.Optimizer]:
        if not weights.hidden:
            raise IncompatibleError(
                "optimiser muon: the denoiser names no weights of hidden layers "
                "(Denoiser.hidden_weights): use adamw"
            )
        hidden = OrthogonalSteps(
            weights.hidden,
            lr=self.rate * rates.learning_rate,
            weight_decay=rates.weight_decay,
            momentum=self.momentum,
            nesterov=self.nesterov,
            rounds=self.iterations,
        )
        return [hidden, fused_adamw(weights.other, rates)]

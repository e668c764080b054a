"""Normalisers: the denominator of the summed losses of a batch.

The mean over examples is an unbiased estimate of the objective. Dividing by the number of predicted
units (masked tokens) gives each *unit* of the batch the same weight, as masked image models do.

The loss is linear in the losses,

    loss = sum_i s_i losses_i,      s_i = d loss / d losses_i,

and the shares s_i depend only on the units of the global batch, so a batch can be processed in
parts whose gradients add up to its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class Normaliser(ABC):
    """A reduction of the losses of a batch. Define ``__call__``."""

    @abstractmethod
    def __call__(
        self, losses: Tensor, units: Tensor, mean_over_ranks: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Per-example losses [B] and units [B] of this rank -> this rank's scalar loss.

        The mean of these scalars over ranks is the loss of the global batch. It is linear in the
        losses.
        """

    def shares(self, units: Tensor, mean_over_ranks: Callable[[Tensor], Tensor]) -> Tensor:
        """[B] the factor of each example's loss in this rank's loss."""
        import torch

        precision = torch.promote_types(torch.get_default_dtype(), torch.float32)
        losses = torch.ones(len(units), dtype=precision, device=units.device, requires_grad=True)
        return torch.autograd.grad(self(losses, units, mean_over_ranks), losses)[0]


class BatchMean(Normaliser):
    """Mean over examples, in nats: an unbiased estimate of the objective."""

    def __call__(
        self, losses: Tensor, units: Tensor, mean_over_ranks: Callable[[Tensor], Tensor]
    ) -> Tensor:
        return losses.mean()

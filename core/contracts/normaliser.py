"""Normalisers: what the summed losses of a batch are divided by.

The choice decides what the gradient of a batch is an estimate of: the mean over examples estimates
the objective without bias; dividing by the units that were asked for (the hidden tokens of a masked
process) weighs each *unit* of the batch the same, as masked image models do.

Either way the loss is linear in the losses,

    loss = sum_i s_i losses_i,      s_i = d loss / d losses_i,

and the shares s_i depend on the units of the global batch alone, which no network is needed for: a
batch can be taken in parts, whose gradients add up to its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class Normaliser(ABC):
    """What the summed losses of a batch are divided by."""

    @abstractmethod
    def __call__(
        self, losses: Tensor, units: Tensor, mean_over_ranks: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Per-example losses [B] and units [B] of this rank -> this rank's scalar loss.

        The mean of these scalars over ranks is the loss of the global batch. It is linear in the
        losses.
        """

    def shares(self, units: Tensor, mean_over_ranks: Callable[[Tensor], Tensor]) -> Tensor:
        """[B] what multiplies the loss of each example in this rank's loss."""
        import torch

        precision = torch.promote_types(torch.get_default_dtype(), torch.float32)
        losses = torch.ones(len(units), dtype=precision, device=units.device, requires_grad=True)
        return torch.autograd.grad(self(losses, units, mean_over_ranks), losses)[0]


class BatchMean(Normaliser):
    """The number of examples: nats per example, an unbiased estimate of the objective."""

    def __call__(
        self, losses: Tensor, units: Tensor, mean_over_ranks: Callable[[Tensor], Tensor]
    ) -> Tensor:
        return losses.mean()

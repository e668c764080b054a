"""Gradient accumulation over micro batches.

    loss = sum_i s_i losses_i

is linear in the losses of the examples, with the shares s_i of the global batch
(:mod:`elbowroom.contracts.normaliser`), so the gradients of partial sums add up to the gradient of
the batch. Noise is keyed by an example's position in the global batch and does not change. Ranks
exchange gradients only in the last micro batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import attrs
import torch
from elbowroom import Diffusion, IncompatibleError, Losses, Noise
from torch import Tensor, nn

from .ranks import Ranks, no_gradient_sync


def accumulate(
    model: Diffusion,
    distributed: nn.Module,
    batch: tuple[Tensor, Tensor | None, Noise],
    size: int | None,
    ranks: Ranks,
) -> Losses:
    """Return the losses of this rank's part of a batch, and accumulate their gradients.

    ``batch`` holds integers x [B, *D], labels [B] and noise; ``size`` is the number of examples in
    a micro batch (None: all); ``distributed`` is the model wrapped for DDP or FSDP.
    """
    x, cond, noise = batch
    if size is None or size >= len(x):
        losses: Losses = distributed(x, cond, noise, ranks.mean)
        losses.loss.backward()
        return losses
    parts = [slice(start, start + size) for start in range(0, len(x), size)]
    shares = _shares(model, x, noise, parts, ranks)  # [B]
    found = []
    for part in parts:
        alone = part is not parts[-1]
        with no_gradient_sync(distributed, model.denoiser) if alone else nullcontext():
            labels = None if cond is None else cond[part]
            losses = distributed(x[part], labels, noise.select(part), shares=shares[part])
            losses.loss.backward()
        found.append(losses)
    return _together(found)


@torch.no_grad()
def _units(model: Diffusion, x: Tensor, noise: Noise) -> Tensor:
    return model.objective.units(model.process.encode(x), noise)


def _shares(
    model: Diffusion, x: Tensor, noise: Noise, parts: Sequence[slice], ranks: Ranks
) -> Tensor:
    """[B] the share of each example in the loss of the global batch."""
    units = torch.cat([_units(model, x[part], noise.select(part)) for part in parts])
    return model.objective.normaliser.shares(units, ranks.mean)


def _together(parts: Sequence[Losses]) -> Losses:
    """Join the losses of micro batches."""
    _, *of_examples = (field.name for field in attrs.fields(Losses))
    each = [torch.cat([getattr(one, name) for one in parts]) for name in of_examples]
    return Losses(torch.stack([one.loss.detach() for one in parts]).sum(), *each)


def check_linear(model: Diffusion) -> None:
    """Raise if the normaliser is not linear in the losses of the examples."""
    normaliser = model.objective.normaliser
    losses, units = torch.tensor([1.0, 5.0, 2.0]), torch.tensor([3, 1, 2])
    whole = normaliser(losses, units, lambda value: value)
    shares = normaliser.shares(units, lambda value: value)
    if not torch.allclose((shares * losses).sum(), whole, rtol=1e-4):
        raise IncompatibleError(
            f"train.micro_batch: normaliser {type(normaliser).__name__} is not linear in the "
            "losses, so the loss of a batch is not a sum over micro batches. Set it to null."
        )

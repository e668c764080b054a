"""Gradient accumulation: a batch larger than memory, in micro batches.

    loss = sum_i s_i losses_i

is linear in the losses of the examples, and the shares s_i are those of the global batch
(:mod:`elbowroom.contracts.normaliser`): the gradients of the parts of this sum add up to the
gradient of the batch. Noise is keyed by an example's position in the global batch, so each example
has the noise it would have without micro batches. Ranks exchange gradients with the last part only.
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
    spread: nn.Module,
    batch: tuple[Tensor, Tensor | None, Noise],
    size: int | None,
    ranks: Ranks,
) -> Losses:
    """The losses of this rank's part of a batch; their gradients are added to the parameters'.

    ``batch`` holds integers x [B, *D], labels [B] and noise; ``size`` is how many examples are
    worked on at once (None: all), ``spread`` the model spread over the ranks.
    """
    x, cond, noise = batch
    if size is None or size >= len(x):
        losses: Losses = spread(x, cond, noise, ranks.mean)
        losses.loss.backward()
        return losses
    parts = [slice(start, start + size) for start in range(0, len(x), size)]
    shares = _shares(model, x, noise, parts, ranks)  # [B]
    found = []
    for part in parts:
        alone = part is not parts[-1]
        with no_gradient_sync(spread, model.denoiser) if alone else nullcontext():
            labels = None if cond is None else cond[part]
            losses = spread(x[part], labels, noise.select(part), shares=shares[part])
            losses.loss.backward()
        found.append(losses)
    return _together(found)


@torch.no_grad()
def _units(model: Diffusion, x: Tensor, noise: Noise) -> Tensor:
    return model.objective.units(model.process.encode(x), noise)


def _shares(
    model: Diffusion, x: Tensor, noise: Noise, parts: Sequence[slice], ranks: Ranks
) -> Tensor:
    """[B] what each example counts in the loss of the global batch."""
    units = torch.cat([_units(model, x[part], noise.select(part)) for part in parts])
    return model.objective.normaliser.shares(units, ranks.mean)


def _together(parts: Sequence[Losses]) -> Losses:
    """The losses of a batch from those of its parts."""
    _, *of_examples = (field.name for field in attrs.fields(Losses))
    each = [torch.cat([getattr(one, name) for one in parts]) for name in of_examples]
    return Losses(torch.stack([one.loss.detach() for one in parts]).sum(), *each)


def check_linear(model: Diffusion) -> None:
    """Only what is linear in the losses of the examples can be taken in parts."""
    normaliser = model.objective.normaliser
    losses, units = torch.tensor([1.0, 5.0, 2.0]), torch.tensor([3, 1, 2])
    whole = normaliser(losses, units, lambda value: value)
    shares = normaliser.shares(units, lambda value: value)
    if not torch.allclose((shares * losses).sum(), whole, rtol=1e-4):
        raise IncompatibleError(
            f"train.micro_batch: normaliser {type(normaliser).__name__} is not linear in the "
            "losses, so the loss of a batch is no sum over micro batches; set it to null"
        )

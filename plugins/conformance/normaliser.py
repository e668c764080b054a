"""Laws of a normaliser."""

from __future__ import annotations

import torch
from elbowroom import Normaliser
from torch import Tensor

from .law import close, ensure, run


def check_normaliser(normaliser: Normaliser) -> None:
    """Check the laws of a normaliser."""
    run(normaliser, [_scalar, _same_over_ranks, _linear], normaliser)


def _batch() -> tuple[Tensor, Tensor]:
    losses = torch.tensor([1.0, 2.0, 4.0, 9.0], dtype=torch.float64)
    return losses, torch.tensor([3, 1, 2, 6])


def _scalar(normaliser: Normaliser) -> None:
    """The loss is one finite number, also for a batch without predicted elements."""
    losses, units = _batch()
    for count in (units, torch.zeros_like(units)):
        loss = normaliser(losses, count, lambda value: value)
        ensure(loss.ndim == 0 and bool(loss.isfinite()), f"it is {loss} for {losses.tolist()}.")


def _same_over_ranks(normaliser: Normaliser) -> None:
    """The mean over ranks is the loss of the whole batch."""
    losses, units = _batch()
    whole = normaliser(losses, units, lambda value: value)
    halves = [slice(0, 2), slice(2, 4)]

    def mean(_: Tensor) -> Tensor:  # over ranks, of the sum of their units
        return torch.stack([units[part].sum() for part in halves]).double().mean()

    parts = torch.stack([normaliser(losses[part], units[part], mean) for part in halves])
    close(parts.mean(), whole, "the mean over two ranks", relative=1e-12)


def _linear(normaliser: Normaliser) -> None:
    """The loss is a weighted sum of the losses, with shares that depend on the units only."""
    losses, units = _batch()
    shares = normaliser.shares(units, lambda value: value)
    whole = normaliser(losses, units, lambda value: value)
    close((shares.double() * losses).sum(), whole, "the sum of losses by shares", relative=1e-6)

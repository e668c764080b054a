"""``elbowroom.sample``: samples as tensors."""

from __future__ import annotations

from os import PathLike
from typing import Any

import torch
from elbowroom import Diffusion, ElbowroomError, Samples, load
from elbowroom.api import with_sampler
from elbowroom.plugins.training.precision import model_on
from elbowroom.registry import trusting

from .drawing import Labels, draw, join
from .given import GivenExamples


def sample(
    model: Diffusion | str | PathLike[str],
    count: int | None = None,
    *,
    given: Any = None,
    keep: Any = None,
    labels: Labels = None,
    seed: int = 0,
    batch_size: int = 64,
    device: torch.device | str | None = None,
    precision: str = "float32",
    trust: bool = False,
    **options: Any,
) -> Samples:
    """``count`` samples of a model or of a run; keywords are options of its sampler.

    ``sampler`` takes another one: ``sample(model, 16, sampler="ddim", steps=50)``.
    Sample number i is the same however many are drawn and however large the batches are. They are
    drawn on ``device``, or the accelerator the model is on, or what there is; a model comes back
    from there.
    """
    with trusting(trust):  # also for a guide's run
        model = model if isinstance(model, Diffusion) else load(model, device=device)
        if options:
            model = with_sampler(model, options)
        if (given is None) != (keep is None):
            raise ElbowroomError("given and keep: pass both, or neither")
        known = None
        if given is not None:
            known = GivenExamples.of(model.process.data, given, keep, seed=seed)
        if count is None:
            count = 64 if known is None else len(known.x)
        with model_on(model, device, precision):
            return join(list(draw(model, count, labels, seed, batch_size, given=known)))

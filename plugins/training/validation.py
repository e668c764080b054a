"""Validation: the ELBO in bits per dimension on the validation split, and preview samples.

Each example is evaluated at a few levels (more for small splits, to limit the variance), evenly
spaced over all draws and assigned to examples by a keyed permutation, always with the same noise:
two models, or two checkpoints of one, are compared on the same draws
(:mod:`elbowroom.plugins.evaluation.bound_estimator`).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from elbowroom import Diffusion, Split
from elbowroom.plugins.evaluation.bound_estimator import (
    BoundEstimator,
    standard_error,
    time_residuals,
)
from elbowroom.plugins.sampling.drawing import draw
from elbowroom.plugins.sampling.picture import has_picture, pixels, tiled
from elbowroom.runs import VALIDATION

from .ranks import Ranks

_SEED, _STEP = 0, 2**31 - 1  # a noise key that no training step uses
_DRAWS = 1024  # at least this many in total
_SMALLEST_BATCH = 32


@torch.no_grad()
def validate(
    model: Diffusion, split: Split, ranks: Ranks, batch_size: int, seed: int = _SEED
) -> dict[str, float]:
    """Return ``validation/bits_per_dim`` and its standard error, the same on every rank.

    For a model with labels it is the bound given the label. ``batch_size`` is the number of
    examples per rank and forward pass in training.
    """
    n, dims = len(split), model.process.data.dims
    estimator = BoundEstimator(
        model, split, torch.arange(n), math.ceil(_DRAWS / n), seed, _STEP, ranks.device
    )
    # without gradients twice the training batch fits into memory
    size = max(1, max(_SMALLEST_BATCH, 2 * batch_size) // estimator.draws)
    bits = torch.zeros(2, estimator.draws, n, dtype=torch.float64, device=ranks.device)
    for start in range(ranks.rank * size, n + ranks.rank * size, size * ranks.world):
        # all ranks call a sharded network equally often: surplus results are not counted
        mine = torch.arange(start, min(start + size, n)) if start < n else torch.zeros(1).long()
        terms = estimator.terms(mine)[0]
        nats = torch.stack((terms.prior + terms.reconstruction, terms.diffusion))
        if start < n:
            bits[:, :, start : start + size] = nats.view(2, estimator.draws, -1) / (
                dims * math.log(2)
            )
    ends, diffusion = ranks.sum(bits).cpu()
    error = standard_error(ends + time_residuals(diffusion, estimator.times(torch.arange(n))))
    return {
        VALIDATION: float((ends + diffusion).mean()),
        "validation/standard_error": 0.0 if error is None else error,
    }


def preview(model: Diffusion, count: int = 16) -> dict[str, dict[str, Any]]:
    """Return a few samples as fields of a RunEvent: one grid in ``images``, or ``texts``."""
    data = model.process.data
    if model.sampler is None or not (data.tokens or has_picture(data.shape)):
        return {}
    x = next(draw(model, count, seed=_SEED, batch_size=count, step=_STEP)).x
    if data.tokens is not None:
        return {"texts": {"samples": data.texts(x)}}
    captions = None
    if data.names is not None:
        captions = [data.class_name(k % len(data.names)) for k in range(count)]
    return {"images": {"samples": tiled(pixels(x, data.levels), captions=captions)}}

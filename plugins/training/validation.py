"""Validation: the ELBO in bits per dimension on the validation split, the same way every time.

Each example is looked at a few times (small splits more often, so that the measurement is not ruled
by chance), at levels spread evenly over all looks and dealt to the examples by a keyed permutation,
with noise that never changes: two models, or two moments of one, are compared on the very same
questions. See :mod:`elbowroom.plugins.evaluation.bound_estimator`, also for the standard error.
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

_SEED, _STEP = 0, 2**31 - 1  # a step no training reaches: its noise is not a training step's
_LOOKS = 1024  # at least this many in all
_FEW = 32  # no device is too small for this many at a time


@torch.no_grad()
def validate(
    model: Diffusion, split: Split, ranks: Ranks, at_once: int, seed: int = _SEED
) -> dict[str, float]:
    """``validation/bits_per_dim`` and its standard error; the same on every rank.

    Of a model with labels it is the bound given the label. ``at_once`` is how many examples a rank
    has room for in training. Training always asks with one seed.
    """
    n, dims = len(split), model.process.data.dims
    looks = BoundEstimator(
        model, split, torch.arange(n), math.ceil(_LOOKS / n), seed, _STEP, ranks.device
    )
    # without gradients a rank has room for twice what it trains with
    size = max(1, max(_FEW, 2 * at_once) // looks.draws)
    bits = torch.zeros(2, looks.draws, n, dtype=torch.float64, device=ranks.device)
    for start in range(ranks.rank * size, n + ranks.rank * size, size * ranks.world):
        # a rank that has run out looks on without counting: sharded networks are called by all
        mine = torch.arange(start, min(start + size, n)) if start < n else torch.zeros(1).long()
        terms = looks.terms(mine)[0]
        nats = torch.stack((terms.prior + terms.reconstruction, terms.diffusion))
        if start < n:
            bits[:, :, start : start + size] = nats.view(2, looks.draws, -1) / (dims * math.log(2))
    ends, diffusion = ranks.sum(bits).cpu()
    error = standard_error(ends + time_residuals(diffusion, looks.times(torch.arange(n))))
    return {
        VALIDATION: float((ends + diffusion).mean()),
        "validation/standard_error": 0.0 if error is None else error,
    }


def shown(model: Diffusion, count: int = 16) -> dict[str, dict[str, Any]]:
    """``samples`` among the ``images``, a grid of the model's own, or among the ``texts``."""
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

"""Validation: the ELBO in bits per dimension on the validation split, the same way every time.

Each example is looked at a few times, at levels spread evenly over all looks (small splits more
often, so that the figure is not ruled by chance), with noise that never changes: two models, or two
moments of one, are compared on the very same questions.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .dataset import Split
from .diffusion import Diffusion
from .distributed import Ranks
from .half_even import HalfEven
from .noise import Noise
from .objective import bound
from .picture import has_picture, pixels, tiled
from .schedule import Schedule

_SEED, _STEP = 0, 2**31 - 1  # a step no training reaches: its noise is not a training step's
_LOOKS = 1024  # at least this many in all
_FEW = 32  # no device is too small for this many at a time


@torch.no_grad()
def validate(model: Diffusion, split: Split, on: Ranks, batch_size: int) -> dict[str, float]:
    """``validation/bits_per_dim`` and its standard error; the same on every rank."""
    n, dims = len(split), model.process.data.dims
    looks = max(1, math.ceil(_LOOKS / n))
    schedule = HalfEven.of(model.schedule)  # the same bound, with less left to chance
    # without gradients a rank has room for twice what it trains with
    size = max(1, max(_FEW, 2 * batch_size // on.world) // looks)
    sums = torch.zeros(2, dtype=torch.float64, device=on.device)
    for start in range(0, n, size * on.world):
        mine = torch.arange(start + on.rank * size, start + (on.rank + 1) * size)
        mine = mine[mine < n]
        # a rank that has run out looks on without counting: sharded networks are called by all
        rows = mine if len(mine) else torch.zeros(1, dtype=torch.int64)
        bits = _nats(model, schedule, split, rows, looks, on)[: len(mine)] / (dims * math.log(2))
        sums += torch.stack((bits.sum(), bits.square().sum()))
    total, squares = on.sum(sums).tolist()
    mean = total / n
    variance = max(squares / n - mean**2, 0) * n / max(n - 1, 1)
    return {
        "validation/bits_per_dim": mean,
        "validation/standard_error": math.sqrt(variance / n),
    }


def _nats(
    model: Diffusion, schedule: Schedule, split: Split, rows: Tensor, looks: int, on: Ranks
) -> Tensor:
    """[B] the bound of each example, the mean over its looks."""
    batch = split.take(rows)
    positions = (torch.arange(looks)[:, None] * len(split) + rows).flatten().to(on.device)
    noise = Noise(_SEED, positions, looks * len(split), _STEP)
    x = batch.x.to(on.device)
    y = None if batch.y is None else batch.y.to(on.device).repeat(looks)
    encoded = model.process.encode(x.repeat(looks, *[1] * (x.ndim - 1)))
    terms = bound(
        model.process, schedule, lambda z, level: model.predict(z, level, y), encoded, noise
    )
    return terms.nats.view(looks, -1).mean(0)


@torch.no_grad()
def pictures(model: Diffusion, on: Ranks, count: int = 16) -> dict[str, Tensor]:
    """``samples``: a grid of the model's own samples, or nothing where the data are no images."""
    data = model.process.data
    if model.sampler is None or not has_picture(data.shape):
        return {}
    noise = Noise.of(_SEED, count, step=_STEP, device=on.device)
    cond = None
    if data.classes is not None:
        cond = torch.arange(count, device=on.device) % data.classes
    return {"samples": tiled(pixels(model.sample(noise, cond).x, data.levels))}

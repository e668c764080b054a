"""The two terms of the bound that no network has a part in: prior KL and reconstruction.

They depend on data, process and the schedule's ends alone, so training works them out once, on some
examples, and adds them to the diffusion term that it sees at every step: what it logs as bits per
dimension is the whole bound.
"""

from __future__ import annotations

import math

import torch
from elbowroom import Diffusion, Noise, Split
from elbowroom.objective import boundary_terms
from elbowroom.randomness import random_subset

_EXAMPLES, _ELEMENTS = 512, 2**17  # at most so many
_AT_ONCE = 16  # examples
_SEED, _STEP = 0, 2**31 - 3  # a step that nobody else asks for


@torch.no_grad()
def boundary(model: Diffusion, split: Split, device: torch.device) -> float:
    """Prior KL and reconstruction in bits per dimension, the mean over some examples."""
    process, dims = model.process, model.process.data.dims
    rows = random_subset(min(_EXAMPLES, math.ceil(_ELEMENTS / dims)), len(split), _SEED)
    total = torch.zeros((), dtype=torch.float64, device=device)
    for part in rows.split(_AT_ONCE):
        x = process.encode(split.take(part).x.to(device))
        noise = Noise(_SEED, part.to(device), len(split), _STEP)
        for term in boundary_terms(process, model.schedule, x, noise):
            total += term.double().sum()
    return float(total) / (len(rows) * dims * math.log(2))

"""Scattered sampling (after Besnier et al. 2025): tokens unmasked together are far apart.

Tokens unmasked in one call are drawn independently given z, which loses their total correlation,
and neighbours have most of it. So tokens are unmasked in the order in which a low-discrepancy
sequence first visits each cell of the image, or of the text,

    point k = (1/2 + k/phi, 1/2 + k/phi^2, ...) mod 1,      phi^(axes + 1) = phi + 1

(Roberts' sequence; theirs is Halton's). Each sample's sequence has its own cyclic shift, so that
every masked token is equally likely to be the k-th.

The order does not depend on drawn values: with one token per call and an exact denoiser this
samples the data exactly, as any order does. With fewer calls the samples' KL from the data is at
most the sum over calls of the total correlation of the tokens unmasked together, averaged over
shifts and draws.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import ClassVar

import attrs
import numpy as np
import torch
from elbowroom import Step, SteppingSampler, Trajectory
from torch import Tensor

from .absorbing import NEEDS, mask_of, unmask, unmask_counts


@attrs.frozen
class Scattered(SteppingSampler):
    """Unmask as many tokens per step as the schedule does, scattered over the sample."""

    needs: ClassVar[frozenset[str]] = NEEDS

    def advance(self, path: Trajectory, z: Tensor, step: Step) -> Tensor:
        masked = (z == mask_of(path.process)).flatten(1)  # [B, N]
        count = unmask_counts(path, step, masked)  # [B]
        rank = turns(path).masked_fill(~masked, masked.shape[1]).argsort(1).argsort(1)
        due = (rank < count[:, None]) & masked
        u = path.noise.uniform("value", z.shape[1:])
        return unmask(path, z, step.level, due.view(z.shape), u)


def turns(path: Trajectory) -> Tensor:
    """[B, N] each token's position in the order: the sequence, shifted for each sample."""
    shape = path.process.data.shape
    shift = path.noise.uniform("shift", (len(shape),))  # [B, axes]
    cell = torch.zeros((len(shift), *[1] * len(shape)), dtype=torch.int64, device=shift.device)
    for axis, size in enumerate(shape):
        along = torch.arange(size, device=shift.device).view(-1, *[1] * (len(shape) - axis - 1))
        begin = (shift[:, axis] * size).long().view(-1, *[1] * len(shape))
        cell = cell * size + (along + begin) % size
    return _cached_order(shape, cell.device)[cell.flatten(1)]


@lru_cache(maxsize=8)
def _cached_order(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """:func:`scattered_order` on a device."""
    return scattered_order(shape).to(device)


def scattered_order(shape: tuple[int, ...]) -> Tensor:
    """[N] the position of each cell of a box in the order in which the sequence visits them."""
    sizes, cells = [size for size in shape if size > 1] or [1], math.prod(shape)
    drawn, first = cells, np.empty(0, np.int64)
    while len(first) < cells:
        cell = np.ravel_multi_index((evenly_spread(drawn, len(sizes)) * sizes).astype(int).T, sizes)
        first = np.unique(cell, return_index=True)[1]  # by cell
        drawn *= 2
    return torch.from_numpy(first.argsort().argsort())


def evenly_spread(count: int, axes: int) -> np.ndarray:
    """[count, axes] points in the unit box: multiples of the powers of 1/phi, modulo 1."""
    phi = 2.0
    for _ in range(64):  # an attracting fixed point
        phi = (1 + phi) ** (1 / (axes + 1))
    return (0.5 + np.arange(count)[:, None] / phi ** np.arange(1, axes + 1)) % 1.0

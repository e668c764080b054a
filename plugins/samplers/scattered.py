"""Scattered sampling (after Besnier et al. 2025): tokens that appear together are far apart.

Tokens revealed in one call are drawn as if they did not see each other, which loses their total
correlation, and neighbours have most of it. So their order is not left to chance: it is that in
which a sequence of even spread first comes to each cell of the picture, or of the text,

    point k = (1/2 + k/phi, 1/2 + k/phi^2, ...) mod 1,      phi^(axes + 1) = phi + 1

(Roberts' sequence; theirs is Halton's). Each sample's is shifted around the edges by an amount of
its own, so that among hidden tokens every one is as likely as any other to be the k-th.

The order depends on nothing that is drawn: with one token a call and an exact denoiser this samples
the data exactly, as any order does. With fewer calls the samples' KL from the data is at most the
sum over calls of the total correlation of what appears together, averaged over shifts and draws.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import ClassVar

import attrs
import numpy as np
import torch
from elbowroom import CategoricalPrediction, Step, SteppingSampler, Trajectory, draw_categorical
from torch import Tensor

from .absorbing import NEEDS, Marked, mask_of, stay_hidden


@attrs.frozen
class Scattered(SteppingSampler):
    """As many tokens a step as the grid's shares ask for, scattered over the whole."""

    needs: ClassVar[frozenset[str]] = NEEDS

    def advance(self, path: Trajectory, z: Tensor, step: Step) -> Tensor:
        hidden = z == mask_of(path.process)
        stays = stay_hidden(path, step, hidden, last=step.progress == 1)
        reveals = hidden.flatten(1).sum(1) - stays  # [B]
        asked = Marked.of(first_of(turns(path), hidden.flatten(1), reveals).view(z.shape))
        if not len(asked.rows):
            return z
        prediction: CategoricalPrediction = path.predict(z[asked.rows], step.level, asked.rows)
        u = path.noise.uniform("value", z.shape[1:])[asked.places]
        return z.index_put(asked.places, draw_categorical(prediction.at(asked.among_rows), u))


def first_of(turn: Tensor, among: Tensor, many: Tensor) -> Tensor:
    """[B, N] the ``many`` [B] tokens whose turn comes first, ``among`` [B, N] these."""
    place = turn.masked_fill(~among, turn.shape[1]).argsort(1).argsort(1)
    return (place < many[:, None]) & among


def turns(path: Trajectory) -> Tensor:
    """[B, N] when it is each token's turn: the sequence, shifted for each sample."""
    shape = path.process.data.shape
    shift = path.noise.uniform("shift", (len(shape),))  # [B, axes]
    cell = torch.zeros((len(shift), *[1] * len(shape)), dtype=torch.int64, device=shift.device)
    for axis, size in enumerate(shape):
        along = torch.arange(size, device=shift.device).view(-1, *[1] * (len(shape) - axis - 1))
        begin = (shift[:, axis] * size).long().view(-1, *[1] * len(shape))
        cell = cell * size + (along + begin) % size
    return _kept_order(shape, cell.device)[cell.flatten(1)]


@lru_cache(maxsize=8)
def _kept_order(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """:func:`scattered_order`, sent to a device once for all steps."""
    return scattered_order(shape).to(device)


def scattered_order(shape: tuple[int, ...]) -> Tensor:
    """[N] the turn of each cell of a box: in the order in which the sequence comes to them."""
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
    for _ in range(64):  # a fixed point that attracts
        phi = (1 + phi) ** (1 / (axes + 1))
    return (0.5 + np.arange(count)[:, None] / phi ** np.arange(1, axes + 1)) % 1.0

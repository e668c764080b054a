"""The reference file's toy: six tokens, four values, a denoiser with and without context."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from elbowroom import CategoricalPrediction, DataSpec, Level
from elbowroom.plugins.masked.process import Masked
from torch import Tensor

X = torch.tensor([[0, 1, 2, 3, 1, 2]])
MASK = 4
PROCESS = Masked().bind(DataSpec((6,), 4))
_n, _v = torch.arange(6, dtype=torch.float64)[:, None], torch.arange(4, dtype=torch.float64)
_FIXED = torch.sin(1 + 4 * _n + _v)  # [N, V]
_CONTEXT = torch.cos(2 + 4 * torch.arange(4, dtype=torch.float64)[:, None] + _v)  # [u, V]


def fixed(z: Tensor, level: Level) -> CategoricalPrediction:
    """The same logits whatever z is."""
    return CategoricalPrediction(_FIXED.expand(len(z), -1, -1))


def context(z: Tensor, level: Level) -> CategoricalPrediction:
    """Each visible token adds its row to the logits of all others."""
    rows = torch.cat([_CONTEXT, torch.zeros(1, 4, dtype=torch.float64)])[z]  # [B, N, V]
    return CategoricalPrediction(_FIXED + 0.5 * (rows.sum(1, keepdim=True) - rows))


def every_mask() -> Tensor:
    """All 64 ways to hide some of the six tokens."""
    hidden = torch.tensor(list(itertools.product([False, True], repeat=6)))
    return torch.where(hidden, MASK, X)


def quadrature(panels: int = 40, order: int = 40) -> tuple[Tensor, Tensor]:
    """Nodes and weights on (0, 1), exact also for square-root singularities at both ends."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    edges = np.linspace(0, 1, panels + 1)
    u = (edges[:-1, None] + (nodes + 1) / 2 / panels).ravel()
    w = np.tile(weights / 2 / panels, panels)
    return (
        torch.from_numpy((1 - np.cos(np.pi * u)) / 2),
        torch.from_numpy(w * np.pi / 2 * np.sin(np.pi * u)),
    )


def expected_plain(predict, level: Level) -> Tensor:
    """E over z of the summed plain loss at each level, [n], by enumeration."""
    z = every_mask()
    x = X.expand_as(z)
    any_level = level.select(0)  # the loss of a masked token does not depend on it
    plain = PROCESS.plain_loss(x, z, predict(z, any_level), any_level).sum(1)  # [64]
    spread = level.over(torch.zeros(len(level.t), 1))
    probability = torch.stack(
        [
            PROCESS.log_likelihood(one.expand(len(level.t), -1), X.expand(len(level.t), -1), spread)
            for one in z
        ],
        1,
    ).exp()  # [n, 64]
    return probability @ plain

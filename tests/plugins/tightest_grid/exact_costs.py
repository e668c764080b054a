"""Exact curves: the costs of steps by enumeration or quadrature, and a file to make grids from."""

from __future__ import annotations

import itertools
import json

import numpy as np
import torch
from elbowroom import DataSpec, Level
from elbowroom.plugins.conformance.oracle import TableOracle
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.tightest_grid.costs import StepCosts, coordinate_of

SPEC = DataSpec((3,), 3)
STATES = torch.tensor(list(itertools.product(range(3), repeat=3)))
POINTS = TableOracle(
    torch.tensor([[0], [3], [4]]), torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
)
"""One element of five values, of which three occur."""


def oracle():
    """Three tokens of three values that depend on each other."""
    weight = torch.exp(1.5 * torch.sin(1.0 + torch.arange(27.0, dtype=torch.float64) ** 1.3))
    return TableOracle(STATES, weight / weight.sum())


def masked_costs(count=24):
    """The exact curve of an exact masked denoiser, by enumeration of data and masks."""
    table = oracle()
    share = torch.linspace(1e-6, 1 - 1e-6, count + 1, dtype=torch.float64)
    return masked_costs_of(table, table.predict(Masked().bind(SPEC)), share.logit()), table


def masked_costs_of(table, predict, log_snr):
    """The exact curve of any masked denoiser on data of a table."""
    process = Masked().bind(SPEC)
    levels, count = Level.at(log_snr, process), len(log_snr) - 1
    hides = torch.tensor(list(itertools.product([False, True], repeat=3)))
    losses = torch.zeros(count, dtype=torch.float64)
    for i in range(count):
        level = levels.select(i)
        for x, p in zip(STATES, table.probabilities, strict=True):
            z = torch.where(hides, process.mask, x)  # [8, 3]
            chance = process.log_likelihood(z, x.expand_as(z), level).exp()
            plain = process.plain_loss(x.expand_as(z), z, predict(z, level), level)
            losses[i] += p * (chance * plain.sum(1)).sum()
    return _priced(process, log_snr, losses)


def gaussian_costs_of(table, predict, log_snr, nodes=120):
    """The curve of a Gaussian denoiser on points of one element, noise by Gauss and Hermite."""
    process = Gaussian().bind(DataSpec((1,), 5))
    places, weights = np.polynomial.hermite_e.hermegauss(nodes)
    eps = torch.from_numpy(places)[:, None]  # [nodes, 1]
    chance = torch.from_numpy(weights / weights.sum())
    losses = torch.zeros(len(log_snr) - 1, dtype=torch.float64)
    for i in range(len(losses)):
        level = Level.at(log_snr[i : i + 1], process)
        for x, p in zip(process.encode(table.states).double(), table.probabilities, strict=True):
            z = level.share.sqrt() * x + level.noise_share.sqrt() * eps
            plain = process.plain_loss(x.expand_as(z), z, predict(z, level), level)
            losses[i] += p * (chance * plain.flatten(1).sum(1)).sum()
    return _priced(process, log_snr, losses)


def _priced(process, log_snr, losses):
    coordinate, slope = coordinate_of(process, log_snr)
    return StepCosts(log_snr, coordinate, slope * losses, torch.ones(len(losses)).double())


def written(folder, costs):
    """A file with the curve, as an evaluation writes it."""
    path = folder / "curve.json"
    path.write_text(json.dumps({"details": {"curve": costs.record()}}))
    return str(path)

"""Sampling grid ``tightest``: of all grids of T steps, the one whose sampler has the best bound.

    grid* = argmin over lambda_0 < ... < lambda_T of sum C(lambda_i, lambda_i+1)

by dynamic programming over the measured levels (:mod:`~elbowroom.plugins.tightest_grid.costs`).
Compared with infinitely many steps a grid loses the mutual information of tokens that are revealed
together, so steps are dense where the loss falls quickly.

The curve is measured by ``elbowroom evaluate RUN --metric curve``. A run that has one uses it by
default. Samples and evaluations record the sha256 of the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import attrs
import torch
from elbowroom import ElbowroomError, Grid, Schedule
from torch import Tensor

from .costs import StepCosts
from .curve_file import HOW, CurveFile, own_curve, read_curve


@attrs.frozen
class Tightest(Grid):
    """Grid with the smallest bound, from the curve in an evaluation's file.

    Example:
        ``elbowroom sample RUN sampler.steps=32 sampler.grid=tightest``
    """

    curve: str | None = None  # file written by ``--metric curve``; None: the run's own

    def times(self, steps: int, schedule: Schedule) -> Tensor:
        return best_times(self._read().costs, steps, schedule)

    def made_from(self) -> Mapping[str, str]:
        found = self._read()
        return {str(found.path): found.sha256}

    def of_run(self, run: Path) -> Tightest:
        return self if self.curve is not None else attrs.evolve(self, curve=str(own_curve(run)))

    def _read(self) -> CurveFile:
        if self.curve is None:
            raise ElbowroomError(
                "sampler.grid.curve: missing. Only a loaded run finds its own curve; "
                f"name a file, or {HOW}"
            )
        return read_curve(self.curve)


def best_times(costs: StepCosts, steps: int, schedule: Schedule) -> Tensor:
    """[steps + 1] times from 1 to 0 through the measured levels within the schedule's range."""
    costs = costs.monotone().within(schedule)
    n = len(costs.log_snr) - 1
    if steps >= n:  # more steps than levels: interpolate
        nodes = torch.linspace(0, n, steps + 1, dtype=torch.float64)
    else:
        nodes = _cached_nodes(costs.table().numpy().tobytes(), n + 1, steps)
    below = nodes.long().clamp(max=n - 1)
    t = schedule.time(torch.lerp(costs.log_snr[below], costs.log_snr[below + 1], nodes - below))
    t[0], t[-1] = 1.0, 0.0
    return t


@lru_cache(maxsize=64)
def _cached_nodes(table: bytes, size: int, steps: int) -> Tensor:
    """:func:`best_nodes`, computed once for all batches of samples."""
    square = torch.frombuffer(bytearray(table), dtype=torch.float64).view(size, size)
    return torch.tensor(best_nodes(square, steps), dtype=torch.float64)


def best_nodes(table: Tensor, steps: int) -> list[int]:
    """Cheapest path of exactly ``steps`` steps from the first level to the last.

    Dynamic programming: the least cost at level j after k steps is the minimum over i of the least
    cost at i after k - 1 steps plus ``table[i, j]``.
    """
    least, before = table[0], []  # [n + 1] after one step; predecessors
    for _ in range(steps - 1):
        least, came = (least[:, None] + table).min(0)
        before.append(came)
    nodes = [len(table) - 1]
    for came in reversed(before):
        nodes.append(int(came[nodes[-1]]))
    return [0, *reversed(nodes)]

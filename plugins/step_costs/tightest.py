"""The tightest grid: of all grids of T steps the one whose sampler has the best bound.

    grid* = argmin over lambda_0 < ... < lambda_T of sum C(lambda_i, lambda_i+1)

by dynamic programming over the measured levels (:mod:`~elbowroom.plugins.step_costs.costs`):
after k steps the least cost of being at level j is min over i < j of (that of k - 1 steps at i) +
C(i, j). What a grid loses against infinitely many steps is what tokens revealed together do not see
of each other, so steps are dense where the loss falls quickly.

The curve is that of the model itself: ``elbowroom evaluate RUN --metric curve``.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import attrs
import torch
from elbowroom import ElbowroomError, Grid, JSONFileError, Schedule, read_json
from torch import Tensor

from .costs import StepCosts


@attrs.frozen
class Tightest(Grid):
    """The grid of T steps with the least bound, from the curve in an evaluation's file."""

    curve: str  # RUN/evaluation/figures.json, made by ``--metric curve``

    def times(self, steps: int, schedule: Schedule) -> Tensor:
        return best_times(read_costs(self.curve), steps, schedule)


def read_costs(path: str) -> StepCosts:
    """The curve an evaluation has written."""
    try:
        record = read_json(Path(path))
        curve = record["details"]["curve"] if isinstance(record, dict) else None
        return StepCosts.of_record(curve)
    except (JSONFileError, ElbowroomError, KeyError, TypeError) as error:
        why = "it has no curve" if isinstance(error, KeyError | TypeError) else str(error)
        raise ElbowroomError(
            f"sampler.grid.curve: {path}: {why}; make one by "
            "elbowroom evaluate RUN --metric curve, which writes RUN/evaluation/figures.json"
        ) from error


def best_times(costs: StepCosts, steps: int, schedule: Schedule) -> Tensor:
    """[steps + 1] times from 1 to 0 through the measured levels that the schedule has."""
    low, high = schedule.log_snr(torch.tensor([1.0, 0.0], dtype=torch.float64)).tolist()
    lam = costs.log_snr
    first = max(int((lam <= low).sum()) - 1, 0)
    last = min(len(lam) - int((lam >= high).sum()), len(lam) - 1)
    if last - first < 1:
        raise ElbowroomError("sampler.grid.curve: it was measured at other levels than these")
    nodes = _nodes(costs.monotone().table()[first : last + 1, first : last + 1], steps)
    inside = lam[first : last + 1].clone()
    inside[0], inside[-1] = low, high  # the schedule's own ends
    t = schedule.time(_between(inside, nodes))
    t[0], t[-1] = 1.0, 0.0
    return t


def best_nodes(table: Tensor, steps: int) -> list[int]:
    """The cheapest way of exactly ``steps`` steps from the first level to the last."""
    n = len(table) - 1
    least, before = table[0], []  # [n + 1] after one step; where each came from
    for _ in range(steps - 1):
        least, came = (least[:, None] + table).min(0)
        before.append(came)
    nodes = [n]
    for came in reversed(before):
        nodes.append(int(came[nodes[-1]]))
    return [0, *reversed(nodes)]


def _nodes(table: Tensor, steps: int) -> Tensor:
    """[steps + 1] float64 places among the levels; in between where there are more steps."""
    n = len(table) - 1
    if steps >= n:
        return torch.linspace(0, n, steps + 1, dtype=torch.float64)
    return torch.tensor(_kept(table.numpy().tobytes(), n + 1, steps), dtype=torch.float64)


@lru_cache(maxsize=64)
def _kept(table: bytes, size: int, steps: int) -> tuple[int, ...]:
    """:func:`best_nodes`, once for all batches of samples."""
    found = torch.frombuffer(bytearray(table), dtype=torch.float64).view(size, size)
    return tuple(best_nodes(found, steps))


def _between(values: Tensor, places: Tensor) -> Tensor:
    below = places.long().clamp(max=len(values) - 2)
    return torch.lerp(values[below], values[below + 1], places - below)

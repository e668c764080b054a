"""The tightest grid: of all grids of T steps the one whose sampler has the best bound.

    grid* = argmin over lambda_0 < ... < lambda_T of sum C(lambda_i, lambda_i+1)

by dynamic programming over the measured levels (:mod:`~elbowroom.plugins.step_costs.costs`). What
a grid loses against infinitely many steps is what tokens revealed together do not see of each
other, so steps are dense where the loss falls quickly.

The curve is that of the model itself: ``elbowroom evaluate RUN --metric curve``. Of a run that has
one it need not be named; which was read, samples and evaluations say (its sha256).

With ``calls`` it is the best grid of so many network calls a sample, on average, instead of so many
steps (:mod:`~elbowroom.plugins.step_costs.budget`); ``steps`` is then a limit. Calls are counted as
masked processes take them in event-driven sampling, by ``ancestral`` and ``top-p``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import attrs
import torch
from elbowroom import ElbowroomError, Grid, Schedule
from torch import Tensor

from .budget import best_within
from .costs import StepCosts
from .curve_file import HOW, CurveFile, own_curve, read_curve
from .ways import best_nodes


@attrs.frozen
class Tightest(Grid):
    """The grid with the least bound, from the curve in an evaluation's file."""

    curve: str | None = None  # a file, made by ``--metric curve``; None: the run's own
    calls: float | None = attrs.field(  # at most so many a sample; None: T steps
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )

    def times(self, steps: int, schedule: Schedule) -> Tensor:
        costs = self._read().costs
        if self.calls is None:
            return best_times(costs, steps, schedule)
        return best_times_within(costs, self.calls, steps, schedule)

    def made_from(self) -> Mapping[str, str]:
        found = self._read()
        return {str(found.path): found.sha256}

    def of_run(self, run: Path) -> Tightest:
        return self if self.curve is not None else attrs.evolve(self, curve=str(own_curve(run)))

    def _read(self) -> CurveFile:
        if self.curve is None:
            raise ElbowroomError(
                "sampler.grid.curve: none is named, and only a run that is loaded with this grid "
                f"finds its own; name a file, or {HOW}"
            )
        return read_curve(self.curve)


def best_times(costs: StepCosts, steps: int, schedule: Schedule) -> Tensor:
    """[steps + 1] times from 1 to 0 through the measured levels that the schedule has."""
    costs = costs.monotone().within(schedule)
    n = len(costs.log_snr) - 1
    if steps >= n:  # in between where there are more steps than levels
        return _times(costs, torch.linspace(0, n, steps + 1, dtype=torch.float64), schedule)
    return _times(costs, _kept(costs.table().numpy().tobytes(), n + 1, steps), schedule)


def best_times_within(costs: StepCosts, calls: float, steps: int, schedule: Schedule) -> Tensor:
    """[T + 1] times of at most ``steps`` steps that take at most ``calls`` calls on average."""
    if costs.tokens is None:
        raise ElbowroomError(
            "sampler.grid.calls: this curve knows of no tokens that appear by themselves. Of a "
            "process that is not masked every step is a call: say sampler.steps. A curve of a "
            "masked run that is older than this option has to be measured anew"
        )
    costs = costs.monotone().within(schedule)
    n, least = len(costs.log_snr) - 1, costs.expected_calls([0, len(costs.log_snr) - 1])
    if calls < least:
        enough = math.ceil(1e4 * least) / 1e4
        raise ElbowroomError(f"sampler.grid.calls: {calls:g}, and one step takes {enough:g}")
    tables = (costs.table(), costs.calls())
    each = [table.numpy().tobytes() for table in tables]
    return _times(
        costs, _kept_within(*each, n + 1, calls - costs.final_prediction(), min(steps, n)), schedule
    )


def _times(costs: StepCosts, places: Tensor, schedule: Schedule) -> Tensor:
    """Times at places among the levels, ends exact."""
    t = schedule.time(_between(costs.log_snr, places))
    t[0], t[-1] = 1.0, 0.0
    return t


@lru_cache(maxsize=64)
def _kept(table: bytes, size: int, steps: int) -> Tensor:
    """:func:`best_nodes`, once for all batches of samples."""
    return torch.tensor(best_nodes(_square(table, size), steps), dtype=torch.float64)


@lru_cache(maxsize=64)
def _kept_within(table: bytes, calls: bytes, size: int, budget: float, steps: int) -> Tensor:
    """:func:`best_within`, once for all batches of samples."""
    nodes = best_within(_square(table, size), _square(calls, size), budget, steps)
    return torch.tensor(nodes, dtype=torch.float64)


def _square(content: bytes, size: int) -> Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.float64).view(size, size)


def _between(values: Tensor, places: Tensor) -> Tensor:
    below = places.long().clamp(max=len(values) - 2)
    return torch.lerp(values[below], values[below + 1], places - below)

"""Where a step is no price times a loss: the grid from a table of divergences, by enumeration."""

from __future__ import annotations

import itertools

import elbowroom as er
import pytest
import torch
from elbowroom import DataSpec, Level
from elbowroom.contrib.uniform import Uniform
from elbowroom.plugins.conformance.oracle import TABLE, every_state
from elbowroom.plugins.schedules.masking import Linear
from elbowroom.plugins.tightest_grid.costs import StepCosts
from elbowroom.plugins.tightest_grid.tightest import Tightest

from tests.plugins.tightest_grid.exact_costs import written

UNIFORM = Uniform().bind(DataSpec((2,), 3))
COUNT = 8


def exact_table(schedule):
    """E step_kl of an exact denoiser between all levels, by enumeration of x and z."""
    t = torch.linspace(1, 0, COUNT + 1, dtype=torch.float64) ** 1.5
    log_snr = schedule.log_snr(t)
    levels, z = Level.at(log_snr, UNIFORM), every_state((2,), 3)  # [9, 2]
    table = torch.zeros(COUNT + 1, COUNT + 1, dtype=torch.float64)
    for i, j in itertools.combinations(range(COUNT + 1), 2):
        here, there = levels.select([i] * len(z)).over(z), levels.select([j] * len(z)).over(z)
        guess = TABLE.predict(UNIFORM)(z, here)
        for x, p in zip(TABLE.states, TABLE.probabilities, strict=True):
            same = x.expand_as(z)
            chance = UNIFORM.log_likelihood(z, same, here).exp()
            table[i, j] += p * (chance * UNIFORM.step_kl(same, z, guess, here, there)).sum()
    return StepCosts(log_snr, measured=table)


def measured_table(schedule):
    """That of a network, as the metric finds it."""
    model = er.assemble(
        data="toy",
        process="uniform",
        schedule=schedule,
        denoiser={"name": "dit", "width": 16, "depth": 1},
    )
    asked = ({"name": "curve", "levels": COUNT, "draws": 16},)
    return StepCosts.of_record(er.evaluate(model, metrics=asked).details["curve"])


@pytest.mark.parametrize("make", [exact_table, measured_table])
def test_its_grid_is_the_best_of_all(make, tmp_path):
    """For every number of steps, of all grids through the levels, tried one by one."""
    schedule = Linear(eps=1e-3)
    costs = make(schedule)
    assert costs.slope is None and len(costs.log_snr) == COUNT + 1
    grid = Tightest(written(tmp_path, costs))
    for steps in range(1, COUNT + 1):
        log_snr = schedule.log_snr(grid.times(steps, schedule))
        away, nodes = (log_snr[:, None] - costs.log_snr).abs().min(1)
        assert len(nodes) == steps + 1 and float(away.max()) < 1e-6
        ways = [[0, *inner, COUNT] for inner in itertools.combinations(range(1, COUNT), steps - 1)]
        rows = costs.record()["measured"]
        tried = [sum(rows[i][j] for i, j in itertools.pairwise(way)) for way in ways]
        found = sum(rows[i][j] for i, j in itertools.pairwise(nodes.tolist()))
        assert found == pytest.approx(min(tried), rel=1e-12)
        assert len(tried) == 1 or found < max(tried)


def test_with_its_ends_it_is_a_bound():
    """Of an exact denoiser: more steps lose less, and none comes below the entropy."""
    costs = exact_table(Linear(eps=1e-3))
    level = Level.at(costs.log_snr[[0, -1]], UNIFORM)
    first, last = (level.select([k]).over(TABLE.states) for k in (0, 1))
    noise = er.Noise.of(0, len(TABLE.states))
    ends = UNIFORM.prior_kl(TABLE.states, first) + UNIFORM.reconstruction(TABLE.states, last, noise)
    bounds = [costs.total([*range(0, COUNT, every), COUNT]) for every in (8, 4, 2, 1)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] + float(TABLE.probabilities @ ends) > TABLE.entropy


def test_a_table_has_at_most_64_levels_and_no_errors():
    """As the guide says: every pair of levels is measured, so they are fewer than asked for."""
    model = er.assemble(
        data="toy",
        process="uniform",
        denoiser={"name": "dit", "width": 16, "depth": 1},
        sampler={"name": "ancestral", "steps": 4},
    )
    report = er.evaluate(model, metrics=({"name": "curve", "draws": 2},))
    assert len(report.details["curve"]["log_snr"]) == 64 + 1
    assert list(report.measurements) == ["curve_bits_per_dim"]
    assert report.measurements["curve_bits_per_dim"].standard_error is None
    costs = StepCosts.of_record(report.details["curve"])
    assert torch.equal(costs.monotone().table(), costs.table())

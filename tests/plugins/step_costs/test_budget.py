"""The tightest grid for a budget of calls, against enumeration; calls, against a sampler's."""

from __future__ import annotations

import itertools
import json
import math

import attrs
import pytest
import torch
from elbowroom import CategoricalPrediction, DataSpec, ElbowroomError, EvenGrid, Noise
from elbowroom.plugins.conformance import check_grid
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.samplers.ancestral import Ancestral
from elbowroom.plugins.samplers.grid import CosineGrid
from elbowroom.plugins.samplers.top_p import TopP
from elbowroom.plugins.schedules.masking import Cosine, Linear
from elbowroom.plugins.step_costs.budget import best_within
from elbowroom.plugins.step_costs.costs import StepCosts
from elbowroom.plugins.step_costs.tightest import Tightest
from elbowroom.plugins.step_costs.ways import best_nodes
from hypothesis import given, strategies as st

LEVELS = 7
GRIDS = [
    [0, *inner, LEVELS]
    for count in range(LEVELS)
    for inner in itertools.combinations(range(1, LEVELS), count)
]


def random_costs(seed):
    draw = torch.Generator().manual_seed(seed)
    lam = (8 * torch.rand(LEVELS + 1, generator=draw, dtype=torch.float64) - 4).sort().values
    share = lam.sigmoid()
    slope = torch.rand(LEVELS, generator=draw, dtype=torch.float64).sort(descending=True).values
    tokens = int(torch.randint(1, 20, (), generator=draw))
    return StepCosts(lam, share, slope, torch.ones(LEVELS).double(), tokens=tokens)


def found(costs, budget, steps=LEVELS):
    """Calls and bound of the grid that is chosen."""
    nodes = best_within(costs.table(), costs.calls(), budget - costs.final_prediction(), steps)
    assert nodes[0] == 0 and nodes[-1] == LEVELS and len(nodes) <= steps + 1
    return costs.expected_calls(nodes), costs.total(nodes)


def all_grids(costs, steps=LEVELS):
    few = [nodes for nodes in GRIDS if len(nodes) <= steps + 1]
    return sorted((costs.expected_calls(nodes), costs.total(nodes)) for nodes in few)


@given(st.integers(0, 1000), st.floats(0, 1), st.integers(1, LEVELS))
def test_no_grid_within_the_budget_has_a_lower_bound(seed, part, steps):
    """Of all grids of at most so many steps, tried one by one."""
    costs = random_costs(seed)
    points = all_grids(costs, steps)
    low, high = points[0][0], points[-1][0]
    budget = low + part * (high - low) + 1e-9
    calls, bound = found(costs, budget, steps)
    assert calls <= budget
    assert bound == pytest.approx(min(b for c, b in points if c <= budget), rel=1e-9)


@pytest.mark.parametrize("budget", [2.0, 2.5])
def test_few_calls_among_many_levels(budget):
    """The hull has few corners there; every grid of three steps is tried."""
    costs = smooth_costs(tokens=16, n=48)
    calls, bound = costs.calls(), costs.table()
    i, j = torch.combinations(torch.arange(1, 48)).unbind(1)
    taken = calls[0, i] + calls[i, j] + calls[j, 48] + costs.final_prediction()
    total = bound[0, i] + bound[i, j] + bound[j, 48]
    nodes = best_within(bound, calls, budget - costs.final_prediction(), 3)
    assert costs.expected_calls(nodes) <= budget
    assert costs.total(nodes) <= float(total[taken <= budget].min()) + 1e-12


@given(st.integers(0, 1000))
def test_a_larger_budget_never_has_a_worse_bound(seed):
    """The bound falls."""
    costs = random_costs(seed)
    points = all_grids(costs)
    budgets = torch.linspace(points[0][0] + 1e-9, points[-1][0] + 1e-9, 9, dtype=torch.float64)
    chosen = [found(costs, budget) for budget in budgets.tolist()]
    for (_, bound), (_, less) in itertools.pairwise(chosen):
        assert less <= bound + 1e-12
    assert chosen[-1][1] == pytest.approx(min(b for _, b in points))


class Uninformed:
    """A model to which every value is equally likely: only its calls are of interest."""

    def __init__(self, shape, schedule):
        self.process, self.schedule = Masked().bind(DataSpec(shape, 3)), schedule

    def predict(self, z, level, cond):
        return CategoricalPrediction(torch.zeros(*z.shape, 3))

    def guided(self, guidance):
        return self


def costs_at(levels, tokens):
    n = len(levels) - 1
    return StepCosts(levels, levels.sigmoid(), torch.ones(n), torch.ones(n), tokens=tokens)


@pytest.mark.parametrize("shape", [(1,), (5,), (8, 8)])
@pytest.mark.parametrize("schedule", [Cosine(), Linear(eps=0.05)])
@pytest.mark.parametrize(
    "sampler", [Ancestral(2, EvenGrid()), Ancestral(40, CosineGrid()), TopP(12, EvenGrid())]
)
def test_expected_calls_are_those_a_sampler_takes(shape, schedule, sampler):
    """Within five standard errors of the mean of 1000 samples, the last look included."""
    model = Uninformed(shape, schedule)
    levels = sampler.levels(model).log_snr
    due = costs_at(levels, math.prod(shape)).expected_calls(range(len(levels)))
    calls = sampler.sample(model, Noise.of(3, 1000)).calls.double()
    error = float(calls.std()) / math.sqrt(len(calls))
    # where no sample differed from the others, rarer ones may: at most 1 in 1000/7 unseen
    assert abs(float(calls.mean()) - due) <= 5 * error + (0.007 if error == 0 else 0)


def written(tmp_path, costs):
    path = tmp_path / "figures.json"
    path.write_text(json.dumps({"details": {"curve": costs.record()}}))
    return str(path)


def smooth_costs(tokens=64, n=64):
    share = torch.linspace(1e-3, 1 - 1e-4, n + 1, dtype=torch.float64)
    slope = torch.exp(-3 * share[:-1])
    return StepCosts(share.logit(), share, slope, torch.ones(n).double(), tokens=tokens)


def test_a_grid_is_asked_for_by_calls(tmp_path):
    """``steps`` is a limit then; the sampler takes as many calls as were asked for, or fewer."""
    schedule = Linear()
    grid = Tightest(written(tmp_path, smooth_costs()), calls=20.5)
    check_grid(grid, schedule)
    model = Uninformed((8, 8), schedule)
    taken = Ancestral(256, grid).sample(model, Noise.of(0, 1000)).calls.double()
    assert 19.5 < float(taken.mean()) < 20.5 + 5 * float(taken.std()) / math.sqrt(1000)
    assert 21 <= len(grid.times(256, schedule)) - 1 < 64
    assert len(grid.times(4, schedule)) == 5


@pytest.mark.parametrize("steps", [24, 32, 48])
def test_where_steps_are_skipped_a_grid_by_calls_is_better_than_one_by_steps(steps):
    """For no more calls than those of the best grid of T steps its bound is lower."""
    costs = smooth_costs()
    by_steps = best_nodes(costs.table(), steps)
    budget = costs.expected_calls(by_steps)
    by_calls = best_within(costs.table(), costs.calls(), budget - costs.final_prediction(), 64)
    assert len(by_calls) > len(by_steps)
    assert costs.expected_calls(by_calls) <= budget
    assert costs.total(by_calls) < costs.total(by_steps)


def test_a_call_that_gains_nothing_is_not_taken():
    """Tokens that say nothing of each other are drawn in one step, however many calls there are."""
    costs = attrs.evolve(smooth_costs(), slope=torch.ones(64).double())
    assert best_within(costs.table(), costs.calls(), 40, 64) == [0, 64]


def test_what_cannot_be_counted_is_refused(tmp_path):
    """Of a process without events, of a budget below one step, and in a stranger's file."""
    plain = smooth_costs(tokens=None)
    with pytest.raises(ElbowroomError, match=r"sampler\.steps"):
        Tightest(written(tmp_path, plain), calls=9).times(8, Linear())
    with pytest.raises(ElbowroomError, match="one step takes 1\\.0"):
        Tightest(written(tmp_path, smooth_costs()), calls=1).times(8, Linear())
    with pytest.raises(ValueError, match="calls"):
        Tightest("", calls=0.5)
    for tokens in (0, -3, 2.5, "x", True):
        record = {**smooth_costs().record(), "tokens": tokens}
        with pytest.raises(ElbowroomError, match="tokens"):
            StepCosts.of_record(record)
    assert StepCosts.of_record(smooth_costs().record()).tokens == 64


@pytest.mark.parametrize(
    "changes",
    [
        {"slope": [math.nan] + [1.0] * 63},
        {"slope": [math.inf] + [1.0] * 63},
        {"slope": [-1.0] * 64},
        {"slope": [[1.0]] * 64},
        {"slope": [10**400] + [1.0] * 63},
        {"error": [math.nan] * 64},
        {"coordinate": [[float(k)] for k in range(65)]},
        {"coordinate": [1.0] * 65},
        {"log_snr": [[float(k)] for k in range(65)]},
        {"tokens": 10**30},
        {"log_snr": list(range(5000)), "coordinate": list(range(5000)), "slope": [1.0] * 4999},
    ],
    ids=", ".join,
)
def test_a_damaged_curve_is_refused_in_a_sentence(tmp_path, changes):
    """Whatever a stranger wrote into the file: no grid is made of it, and nothing runs for ever."""
    path = tmp_path / "figures.json"
    record = {**smooth_costs().record(), **changes}
    path.write_text(json.dumps({"details": {"curve": record}}))
    for grid in (Tightest(str(path)), Tightest(str(path), calls=6.5)):
        with pytest.raises(ElbowroomError, match=r"sampler\.grid\.curve: .*its curve"):
            grid.times(8, Linear())


@given(st.integers(0, 1000), st.sampled_from([0.0, 1e-320, 1e-12, 1e12]))
def test_it_ends_for_every_table(seed, scale):
    """Costs that are nothing, next to nothing or negative too."""
    costs = random_costs(seed)
    for shift in (0.0, -2.0):
        table = attrs.evolve(costs, slope=scale * (costs.slope + shift)).table()
        for budget in (0.0, 1.0, 2.5, 6.5):
            nodes = best_within(table, costs.calls(), budget, LEVELS)
            assert nodes[0] == 0 and nodes[-1] == LEVELS


def test_the_least_budget_is_told_so_that_it_is_taken(tmp_path):
    """Rounded up: who copies the number from the refusal gets a grid."""
    path = written(tmp_path, smooth_costs())
    with pytest.raises(ElbowroomError) as refused:
        Tightest(path, calls=1).times(8, Linear())
    assert len(Tightest(path, calls=float(str(refused.value).split()[-1])).times(8, Linear())) >= 2

"""The tightest grid, against enumeration."""

from __future__ import annotations

import itertools
import json
import math

import pytest
import torch
from elbowroom import ElbowroomError, EvenGrid
from elbowroom.contrib.uniform import Uniform
from elbowroom.plugins.conformance import check_grid
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.schedules.masking import Linear
from elbowroom.plugins.tightest_grid.costs import StepCosts, coordinate_of, has_price
from elbowroom.plugins.tightest_grid.tightest import Tightest, best_nodes, best_times
from hypothesis import given, strategies as st

from tests.plugins.tightest_grid.exact_costs import SPEC, masked_costs


def random_costs(seed, n=7):
    draw = torch.Generator().manual_seed(seed)
    places = torch.rand(n + 1, generator=draw, dtype=torch.float64).sort().values
    slope = torch.rand(n, generator=draw, dtype=torch.float64).sort(descending=True).values
    return StepCosts(torch.linspace(-5, 5, n + 1).double(), places, slope, torch.ones(n).double())


@given(st.integers(0, 1000), st.integers(1, 7))
def test_no_grid_of_as_many_steps_costs_less(seed, steps):
    """Dynamic programming finds what trying all grids finds."""
    costs = random_costs(seed)
    least = min(
        costs.total([0, *inner, 7]) for inner in itertools.combinations(range(1, 7), steps - 1)
    )
    found = best_nodes(costs.table(), steps)
    assert (found[0], found[-1], len(found)) == (0, 7, steps + 1)
    assert costs.total(found) == pytest.approx(least, rel=1e-12)


@given(st.integers(0, 1000))
def test_more_steps_never_cost_more(seed):
    """Where slopes do not rise, a level more never makes the bound worse."""
    costs = random_costs(seed)
    totals = [costs.total(best_nodes(costs.table(), steps)) for steps in range(1, 8)]
    assert all(b <= a + 1e-12 for a, b in itertools.pairwise(totals))


def test_the_bound_is_the_divergence_of_paths_above_the_entropy():
    """B(grid) less the entropy is the KL of whole paths: never below that of the samples.

    With one step all tokens are drawn at once, each from its marginal, and both are known exactly.
    """
    costs, table = masked_costs()
    p = table.probabilities.view(3, 3, 3)
    marginals = [p.sum(dim=[d for d in range(3) if d != k]) for k in range(3)]
    product = torch.einsum("a,b,c->abc", *marginals)
    one_step = costs.total([0, len(costs.log_snr) - 1])
    assert one_step == pytest.approx(-float((p * product.log()).sum()), rel=1e-4)
    finest = costs.total(range(len(costs.log_snr)))
    assert table.entropy < finest < one_step


def test_the_tightest_grid_beats_the_even_one_on_an_exact_model():
    """At every number of steps, and by the law of large T it needs fewer where the loss is flat."""
    costs, _ = masked_costs()
    n = len(costs.log_snr) - 1
    for steps in (2, 3, 4, 6, 8, 12):
        best = costs.total(best_nodes(costs.table(), steps))
        even = costs.total([round(n * k / steps) for k in range(steps + 1)])
        assert best < even


def test_an_exact_denoisers_slopes_fall():
    """Knowing more never makes a guess worse; so projecting changes nothing."""
    costs, _ = masked_costs()
    assert (costs.slope.diff() <= 1e-12).all()
    torch.testing.assert_close(costs.monotone().slope, costs.slope)


@pytest.mark.parametrize("process", [Masked().bind(SPEC), Gaussian().bind(SPEC)])
def test_a_steps_price_is_linear_in_the_coordinate(process):
    """slope (S_j - S_i) is the process's own price of every step."""
    lam = torch.linspace(-9, 7, 33, dtype=torch.float64)
    coordinate, slope = coordinate_of(process, lam)
    due = process.step_price(lam[:-1, None], lam)
    found = slope[:, None] * (coordinate - coordinate[:-1, None])
    above = torch.ones(32, 33, dtype=torch.bool).triu(1)
    torch.testing.assert_close(found[above], due[above], rtol=1e-6, atol=1e-12)
    assert has_price(process)
    assert not has_price(Uniform().bind(SPEC))


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(0.1, 10)), min_size=1, max_size=12))
def test_a_curve_is_projected_onto_falling_ones(pairs):
    """It does not rise, keeps the weighted mean, and leaves alone what falls already."""
    slope, weight = torch.tensor(pairs, dtype=torch.float64).unbind(1)
    places = torch.arange(len(pairs) + 1).double()
    found = StepCosts(places, places, slope, weight**-0.5).monotone()
    assert (found.slope.diff() <= 1e-12).all()
    assert float(weight @ found.slope) == pytest.approx(float(weight @ slope), abs=1e-9)
    torch.testing.assert_close(found.monotone().slope, found.slope)


def test_conforms_and_reads_what_an_evaluation_wrote(tmp_path):
    """Times from 1 to 0 for few steps and for more than there are levels."""
    costs, _ = masked_costs()
    path = tmp_path / "figures.json"
    path.write_text(json.dumps({"details": {"curve": costs.record()}}))
    check_grid(Tightest(str(path)), Linear())
    for steps in (1, 5, 24, 60):
        t = Tightest(str(path)).times(steps, Linear())
        assert (t.diff() < 0).all()
        assert (float(t[0]), float(t[-1]), len(t)) == (1.0, 0.0, steps + 1)
    assert not torch.allclose(
        Tightest(str(path)).times(6, Linear()), EvenGrid().times(6, Linear()), atol=1e-3
    )


def test_a_schedule_that_has_only_some_of_the_levels_uses_those():
    """Levels beyond its ends are left out."""
    costs, _ = masked_costs()

    t = best_times(costs, 6, Linear(eps=0.2))
    assert (t.diff() < 0).all()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "no curve"),
        ("[]", "no curve"),
        ("{", "figures.json"),
        ('{"details": {"curve": {"log_snr": [1, 0]}}}', "incomplete"),
        ('{"details": {"curve": {"log_snr": [[1], 2]}}}', "finite numbers"),
        (  # both forms of costs, of which one was never looked at
            '{"details": {"curve": {"log_snr": [0, 1], "measured": [[0, 1], [0, 0]], '
            '"coordinate": [5, 1, 2], "slope": [-1]}}}',
            "incomplete",
        ),
        ('{"details": {"curve": {"log_snr": "x"}}}', "finite numbers"),
    ],
)
def test_a_file_without_a_curve_says_how_to_make_one(tmp_path, text, words):
    """Whatever a stranger's file holds."""
    path = tmp_path / "figures.json"
    path.write_text(text)
    with pytest.raises(ElbowroomError, match=words) as caught:
        Tightest(str(path)).times(4, Linear())
    assert "--metric curve" in str(caught.value)
    with pytest.raises(ElbowroomError, match="--metric curve"):
        Tightest(str(tmp_path / "none.json")).times(4, Linear())


def test_excess_over_many_steps_follows_the_law_of_large_numbers_of_steps():
    """(N/2T) (int sqrt(-H') da)^2 for a smooth curve H, within a few percent."""
    n = 2000
    a = torch.linspace(0, 1, n + 1, dtype=torch.float64)
    slope = torch.exp(-3 * a[:-1])  # N H(a)
    costs = StepCosts(a * 10, a, slope, torch.ones(n).double())
    continuous = (1 - math.exp(-3)) / 3
    steps = 40
    coarse = StepCosts(a[::5] * 10, a[::5], slope[::5], torch.ones(n // 5).double())
    excess = coarse.total(best_nodes(coarse.table(), steps)) - continuous
    due = (2 / math.sqrt(3) * (1 - math.exp(-1.5))) ** 2 / (2 * steps)
    assert excess == pytest.approx(due, rel=0.05)
    assert costs.total(range(n + 1)) == pytest.approx(continuous, rel=2e-3)

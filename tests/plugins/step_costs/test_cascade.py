"""Cascades made from a curve: knots where the bits are, shares nearest to a weighting."""

from __future__ import annotations

import json
import math

import attrs
import numpy as np
import pytest
import torch
import yaml
from elbowroom import ElbowroomError, EvaluationProtocol, Level, certify
from elbowroom.config.sections import load_config
from elbowroom.plugins.evaluation.run import evaluate_run
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.schedules.masking import Cosine
from elbowroom.plugins.step_costs.costs import StepCosts
from elbowroom.plugins.step_costs.information import equal_parts, information
from elbowroom.plugins.step_costs.nearest_cascade import nearest_cascade
from elbowroom.plugins.training.run import train
from elbowroom.plugins.weightings.balanced import Balanced
from elbowroom.plugins.weightings.cascade import Cascade
from elbowroom.plugins.weightings.paper import EDM, FlowMatching, Sigmoid
from elbowroom.plugins.weightings.positions import Positions
from elbowroom.plugins.weightings.simple import Simple
from hypothesis import given, strategies as st

from tests.helpers.command import elbowroom
from tests.helpers.tiny_run import tiny_config
from tests.plugins.step_costs.exact_costs import masked_costs

PROCESS, SCHEDULE = Masked(), Cosine()


def costs(seed: int = 0, count: int = 40, reconstruction: float | None = None) -> StepCosts:
    """A curve that falls from noise to data, by random steps."""
    random = np.random.default_rng(seed)
    log_snr = torch.from_numpy(np.sort(random.normal(0, 2.2, count + 1)))
    coordinate = log_snr.sigmoid()
    coordinate = (coordinate - coordinate[0]) / (coordinate[-1] - coordinate[0])
    slope = torch.from_numpy(np.sort(random.gamma(2.0, 1.0, count))[::-1].copy())
    error = torch.full((count,), 0.01, dtype=torch.float64)
    return StepCosts(log_snr, coordinate, slope, error, reconstruction=reconstruction)


def test_the_coordinate_counts_bits_from_the_data():
    """1 at noise, what the reconstruction has at the data, falling by each step's cost."""
    made = costs(reconstruction=0.7)
    u, each = information(made), made.table().diagonal(1)
    total = float(each.sum()) + 0.7
    assert u[0] == 1 and float(u[-1]) == pytest.approx(0.7 / total)
    torch.testing.assert_close(-u.diff() * total, each)
    assert float(information(costs())[-1]) == 0


def test_of_an_exact_denoiser_it_is_the_entropy_that_is_left():
    """Masked: the bits between a level and the data are those of the tokens that are hidden."""
    made, table = masked_costs(count=400)
    entropy = float(-(table.probabilities * table.probabilities.log()).sum())
    assert float(made.table().diagonal(1).sum()) == pytest.approx(entropy, rel=0.02)
    half = float(torch.from_numpy(np.interp([0.5], made.log_snr.sigmoid(), information(made))))
    hidden = _entropy_of_hidden(table, 0.5)
    assert half == pytest.approx(hidden / entropy, abs=0.01)


def _entropy_of_hidden(table, share):
    """E over masks of H(hidden tokens | visible ones), each visible with the given share."""
    p = table.probabilities.reshape(3, 3, 3)

    def joint(kept):
        away = [axis for axis in range(3) if axis not in kept]
        q = p.sum(away) if away else p
        return float(-(q * q.log()).sum())

    total = 0.0
    for mask in range(8):
        seen = [axis for axis in range(3) if mask >> axis & 1]
        chance = share ** len(seen) * (1 - share) ** (3 - len(seen))
        total += chance * (joint([0, 1, 2]) - (joint(seen) if seen else 0.0))
    return total


def test_a_network_that_gets_worse_with_less_noise_draws_no_knots_there():
    """Its loss is taken for what it could have known."""
    made = costs()
    bad = made.slope.clone()
    bad[30] *= 50
    spoiled = attrs.evolve(made, slope=bad, error=torch.where(bad == made.slope, 0.01, 1e3))
    torch.testing.assert_close(information(spoiled), information(made), rtol=0, atol=0.02)


@given(st.integers(0, 999), st.integers(1, 12), st.floats(0, 2))
def test_equally_many_bits_lie_between_knots(seed, count, reconstruction):
    """u at the k-th knot from the data is k/(K + 1), unless reconstruction alone has as much."""
    made = costs(seed, reconstruction=reconstruction)
    knots = equal_parts(made, count)
    u = information(made).flip(0).numpy()
    asked = (np.arange(count) + 1) / (count + 1)
    due = np.maximum(asked, u[0])
    found = np.interp(knots[::-1], made.log_snr.numpy(), u[::-1])
    assert list(knots) == sorted(set(knots)) and 1 <= len(knots) <= count
    for one in due:
        assert np.abs(found - one).min() < 1e-3


def test_a_curve_without_bits_is_refused():
    made = costs()
    with pytest.raises(ElbowroomError, match="no bits at any level"):
        information(attrs.evolve(made, slope=torch.zeros_like(made.slope)))


@given(st.integers(0, 99))
def test_a_cascade_is_nearest_to_itself(seed):
    """Its own shares, and nothing left over."""
    made = costs(seed)
    knots = equal_parts(made, 4)
    shares = np.random.default_rng(seed).dirichlet(np.ones(len(knots) + 1)).tolist()
    found = nearest_cascade(Cascade(knots, shares), SCHEDULE, PROCESS, made, knots)
    assert found.residual < 1e-6
    assert found.shares == pytest.approx(shares, abs=2e-3)


@pytest.mark.parametrize("weighting", [Sigmoid(), EDM(), Simple()])
def test_no_other_shares_are_nearer(weighting):
    """In the mean square over bits, against a thousand others and the best single steps."""
    made = costs(7, count=200, reconstruction=0.1)
    knots = equal_parts(made, 5)
    ready = weighting.prepare(SCHEDULE, PROCESS)
    found = nearest_cascade(ready, SCHEDULE, PROCESS, made, knots)
    level = Level.of(SCHEDULE.time(made.log_snr), SCHEDULE, PROCESS)
    u = information(made)
    mass = torch.zeros_like(u)
    mass[:-1] -= u.diff() / 2
    mass[1:] -= u.diff() / 2
    mass[-1] += u[-1]
    w = ready(level)

    def residual(shares):
        v = Cascade(knots, tuple(shares))(level)
        scale = (mass * v * w).sum() / (mass * v * v).sum()  # a factor is free
        return float(((mass * (scale * v - w) ** 2).sum() / (mass * w**2).sum()).sqrt())

    own = residual(found.shares)
    assert own == pytest.approx(found.residual, rel=1e-3, abs=1e-4)
    others = [*np.eye(6), *np.random.default_rng(0).dirichlet(np.full(6, 0.5), 1000)]
    near = np.array(found.shares) + 1e-9
    others += [*(np.random.default_rng(1).dirichlet(200 * near + 0.1, 200))]
    assert own <= min(residual(one) for one in others) + 1e-5
    assert certify(Cascade(found.knots, found.shares), SCHEDULE, PROCESS).is_bound


def test_what_is_nowhere_above_zero_is_near_no_cascade():
    class Negative(Sigmoid):
        def __call__(self, level):
            return -super().__call__(level)

    with pytest.raises(ElbowroomError, match="not above 0 anywhere"):
        nearest_cascade(Negative(), SCHEDULE, PROCESS, costs(), (-1.0, 1.0))


@pytest.mark.parametrize("process", ["masked", "gaussian", "uniform"])
def test_the_command(tmp_path, process):
    """From a run to a weighting that can be trained: its line is a config's."""
    train(
        load_config(tiny_config(process, steps=2)),
        tmp_path / "run",
        without={"console", "tensorboard"},
    )
    missing = elbowroom("cascade", str(tmp_path / "run"), "--trust")
    assert missing.code == 2 and "--metric curve" in missing.err
    protocol = EvaluationProtocol(metrics=({"name": "curve", "levels": 24, "looks": 8},))
    evaluate_run(tmp_path / "run", protocol=protocol, trust=True)
    kept = json.loads((tmp_path / "run/evaluation/details/curve.json").read_text())
    assert kept["details"]["curve"]["reconstruction"] >= 0

    said = elbowroom("cascade", str(tmp_path / "run"), "--trust", "--knots", "3", "--of", "sigmoid")
    assert said.code == 0, said.err
    assert "% away from sigmoid" in said.out and "it is a bound" in said.out
    line = yaml.safe_load(said.out.splitlines()[-1])
    record = json.loads(
        elbowroom(
            "cascade", str(tmp_path / "run"), "--trust", "--knots", "3", "--of", "sigmoid", "--json"
        ).out
    )
    assert line == {"weighting": record["weighting"]} and record["certificate"]["monotone"]
    load_config(tiny_config(process), {"weighting": record["weighting"]})
    equal = json.loads(elbowroom("cascade", str(tmp_path / "run"), "--trust", "--json").out)
    assert "shares" not in equal["weighting"] and equal["residual"] is None
    wrong = elbowroom("cascade", str(tmp_path / "run"), "--trust", "--of", "nosuch")
    assert wrong.code == 2 and "--of: unknown weighting 'nosuch'" in wrong.err


def test_weightings_that_are_more_than_a_function_of_the_level_are_refused():
    """What a cascade cannot be near to, whatever its shares."""
    made, uneven = costs(), Positions(of=Sigmoid(), weights=(1.0, 3.0))
    with pytest.raises(ElbowroomError, match="Balanced changes with training"):
        nearest_cascade(Balanced(), SCHEDULE, PROCESS, made, (0.0,))
    with pytest.raises(ElbowroomError, match="weighs positions"):
        nearest_cascade(uneven.prepare(SCHEDULE, PROCESS), SCHEDULE, PROCESS, made, (0.0,))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"error": 1e190, "slope": "rising"}, None),
        ({"slope": 1e199, "reconstruction": 1e199}, None),
        ({"slope": 0.0}, "no bits at any level"),
        ({"log_snr": -1e5}, "no finite weight"),
    ],
)
def test_curves_beyond_all_measure_end_in_a_sentence_or_a_cascade(change, why):
    """A stranger's file, or a network that ran away."""
    made = costs()
    if "error" in change:
        made = attrs.evolve(made, error=torch.full_like(made.error, change["error"]))
        made = attrs.evolve(made, slope=made.slope.flip(0))
    elif "slope" in change:
        beyond = change.get("reconstruction")
        slope = torch.full_like(made.slope, change["slope"])
        made = attrs.evolve(made, slope=slope, reconstruction=beyond)
    if "log_snr" in change:
        made = attrs.evolve(made, log_snr=made.log_snr + change["log_snr"])

    def cascade():
        return nearest_cascade(FlowMatching(), SCHEDULE, PROCESS, made, equal_parts(made, 3))

    if why is None:
        assert all(math.isfinite(one) for one in (*cascade().knots, *cascade().shares))
    else:
        with pytest.raises(ElbowroomError, match=why):
            cascade()


@pytest.mark.parametrize("bad", [-1, "much", [0.1], float("inf"), True])
def test_a_reconstruction_that_is_none_is_refused(bad):
    with pytest.raises(ElbowroomError, match="reconstruction that cannot be one"):
        StepCosts.of_record({**costs().record(), "reconstruction": bad})

"""How far a weighting that is no bound is one: the identity, the regressions, a run's curve."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from elbowroom import ElbowroomError, certify
from elbowroom.config.sections import load_config
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.paper.slack import (
    SHARES,
    LossCurve,
    isotonic_quantile,
    minorant,
    slack,
    slack_on_run,
)
from elbowroom.plugins.paper.theory import check_theorems
from elbowroom.plugins.schedules.gaussian import VPCosine
from elbowroom.plugins.schedules.masking import Cosine, Linear
from elbowroom.plugins.weightings.paper import EDM, IDDPM, Elbo
from elbowroom.registry.components import installed
from elbowroom.runs.folder import RunFolder
from hypothesis import given, settings, strategies as st

from tests.helpers.command import elbowroom
from tests.helpers.reference import tensor
from tests.helpers.tiny_run import tiny_config

weights = st.lists(st.floats(0, 4), min_size=8, max_size=8)


@pytest.fixture(scope="module")
def cascades():
    found = {name: check_theorems(installed(), name, 8) for name in ("optimal", "tempered")}
    return [check.cascade for checks in found.values() for check in checks]


@given(w=weights)
@settings(max_examples=60)
def test_a_weighting_is_its_minorants_mixture_less_two_terms(cascades, w):
    """E L^w = E L^m - sum (w - m)(transition KL + information), exactly, for any w >= 0."""
    for cascade in cascades:
        left, right = cascade.below_minorant(tensor(w))
        torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-9)
        m = minorant(tensor(w))
        assert float(left) <= float(-(m @ cascade.expected_steps)) + 1e-12


def test_a_steps_kl_is_the_transitions_and_the_information(cascades):
    """E KL_j = A_j + I_j with I_j >= 0 free of the denoiser."""
    for cascade in cascades:
        parts = cascade.transition_kl + cascade.information
        torch.testing.assert_close(cascade.expected_steps[:-1], parts, rtol=1e-9, atol=1e-9)
        assert bool((cascade.information > 0).all())
    for one, other in zip(cascades[:2], cascades[2:], strict=True):  # two denoisers
        torch.testing.assert_close(one.information, other.information)


@given(w=weights, m=weights)
@settings(max_examples=60)
def test_the_slack_of_any_rising_mixture_covers_the_violation(cascades, w, m):
    """Up to terms free of the model E L^w <= E L^m + sum (m - w)_+ KL, at most what is reported."""
    w, m = tensor(w), tensor(m).sort().values
    m[-1] = w[-1]  # the last level's transition is not part of the cascade
    m = minorant(m)
    over = (m - w).clamp(min=0)
    for cascade in cascades:
        free = (w - m)[:-1] @ cascade.information - (m - w)[-1] * cascade.expected_steps[-1]
        left = -(w @ cascade.expected_steps) + free
        violation = over[:-1] @ cascade.transition_kl
        assert float(left) <= float(-(m @ cascade.expected_steps) + violation) + 1e-9
        assert float(violation) <= float(over @ cascade.expected_steps) + 1e-9


@given(
    w=st.lists(st.floats(0, 3), min_size=1, max_size=5),
    cost=st.lists(st.just(0.0) | st.floats(0.1, 2), min_size=5, max_size=5),
    price=st.sampled_from([0.0, 0.25, 1.0, 3.0]),
)
@settings(max_examples=60)
def test_the_regression_finds_the_best_mixture(w, cost, price):
    """No non-decreasing choice among the values of w costs less (one of them is best)."""
    w, cost = tensor(w), tensor(cost)[: len(w)]

    def loss(m):
        return float(cost @ ((w - m).clamp(min=0) + price * (m - w).clamp(min=0)))

    found = isotonic_quantile(w, cost, price)
    assert bool((found.diff() >= 0).all())
    tried = itertools.combinations_with_replacement(sorted(w.tolist()), len(w))
    assert loss(found) <= min(loss(tensor(m)) for m in tried) + 1e-9


@given(w=st.lists(st.floats(0.01, 3), min_size=2, max_size=40), scale=st.floats(0.1, 10))
@settings(max_examples=60)
def test_more_is_held_with_more_slack_and_scale_means_nothing(w, scale):
    """Shares rise with slack; all of w is held by its running maximum; 2w has the slack of w."""
    w, cost = tensor(w), torch.full((len(w),), 1 / len(w), dtype=torch.float64)
    found = slack(w, cost, "")
    assert [row.share for row in found.rows] == list(SHARES)
    slacks = [found.without.slack, *(row.slack for row in found.rows)]
    assert slacks[0] == 0 and all(a <= b + 1e-12 for a, b in itertools.pairwise(slacks))
    most = float((w.cummax(0).values - w).mean() / w.mean())
    assert slacks[-1] == pytest.approx(most, abs=1e-9)
    again = slack(scale * w, cost, "")
    assert [r.slack for r in again.rows] == pytest.approx([r.slack for r in found.rows], abs=1e-9)


def test_a_share_never_stands_without_its_slack():
    """IDDPM's minorant is ruled by w(1) = 0: nothing without slack, half of it with a little."""
    certificate = certify(IDDPM(), Cosine(eps=0), Masked())
    found = certificate.slack
    assert found.without.share < 1e-3 and found.without.slack == 0
    assert 0 < found.rows[0].slack < found.rows[-1].slack < 1
    assert "0.0% with slack 0, 50% with 0.0" in found.words and "per unit of t" in found.words
    edm = certify(EDM(), VPCosine(eps=0), Gaussian()).slack
    assert edm.without.share < 1e-3 and edm.rows[-1].slack < found.rows[-1].slack
    assert certify(Elbo(), Cosine(), Masked()).slack is None


def test_a_negative_weight_has_slack_everywhere():
    """Below zero no mixture holds anything: the slack is there from the first row."""
    w, cost = tensor([-1.0, 1.0, 2.0]), tensor([1.0, 1.0, 1.0]) / 3
    found = slack(w, cost, "")
    assert found.without.slack == pytest.approx(1 / 3)  # 1 of 3, w scaled to weigh 1 on average
    assert all(row.slack >= found.without.slack - 1e-12 for row in found.rows)


# -- a run's curve


def _curve(folder):
    return LossCurve.of_log(folder.rows(), folder.path.name)


def flat_run(path, lost: float, **objective):
    """A run whose every level loses the same, ``lost`` bits/dim in all, by its log."""
    overrides = ["schedule=cosine", *(f"objective.{k}={v}" for k, v in objective.items())]
    config = load_config(tiny_config(), overrides)
    folder = RunFolder.create(path, config)
    low, high = Cosine().log_snr(tensor([1.0, 0.0])).tolist()
    edges = torch.linspace(low, high, 25, dtype=torch.float64)
    centres = ((edges[1:] + edges[:-1]) / 2).tolist()
    density = lost / (high - low)
    for step, part in ((10, 7.0), (90, 0.5), (100, 1.5)):  # the first is too early to count
        curve = [centres, [part * density] * 24]
        folder.append({"step": step, "curves": {"elbo_by_level": curve}})
    return folder


def test_a_runs_curve_is_spread_over_the_looks(tmp_path):
    """What the looks cost is the run's bits/dim in all, in continuous and in discrete time."""
    curve = _curve(flat_run(tmp_path / "run", lost=2.5))
    schedule = Cosine()
    t = curve.times(schedule)
    assert float(curve.cost(schedule.log_snr(t)).sum()) == pytest.approx(2.5, rel=1e-6)
    t = torch.arange(1, 501, dtype=torch.float64) / 500
    cost = curve.cost(schedule.log_snr(t))
    assert 0 < float(cost.sum()) <= 2.5 + 1e-6  # levels no step visits lose nothing


def test_slack_on_a_run_is_in_its_bits_per_dim(tmp_path):
    """Over a flat curve the slack is that over lambda, times what is lost in all."""
    folder = flat_run(tmp_path / "run", lost=2.5)
    found = slack_on_run(IDDPM(), Cosine(), Masked(), _curve(folder))
    lam = torch.linspace(*Cosine().log_snr(tensor([0.0, 1.0])).tolist(), 20001).double()
    w = 1 / (lam / 2).cosh()
    due = 2.5 * float((w.cummax(0).values - w).mean() / w.mean())
    assert found.rows[-1].slack == pytest.approx(due, rel=1e-2)
    assert "bits/dim" in found.unit and "step 100" in found.unit
    discrete = slack_on_run(IDDPM(), Cosine(), Masked(), _curve(folder), steps=4000)
    assert math.isfinite(discrete.rows[-1].slack)


def test_a_run_without_a_curve_is_told(tmp_path):
    """Before its first logging step a run has nothing to say."""
    folder = RunFolder.create(tmp_path / "run", tiny_config())
    with pytest.raises(ElbowroomError, match="train it first"):
        _curve(folder)


def test_the_command_reads_a_run(tmp_path):
    """--run takes process, schedule and steps of the run, and prints slack in its bits/dim."""
    flat_run(tmp_path / "run", lost=2.5, steps=50)
    run = str(tmp_path / "run")
    found = elbowroom("weighting", "iddpm", "--run", run, "--json").json
    assert found["certificate"]["steps"] == 50 and found["schedule"]["name"] == "cosine"
    assert found["slack"]["unit"].startswith("bits/dim, at most")
    said = elbowroom("weighting", "iddpm", "--run", run).out.replace("\n", " ")
    assert "a bound with slack holds" in said and "bits/dim" in said
    refused = elbowroom("weighting", "iddpm", "--run", run, "--steps", "3")
    assert refused.code == 2
    assert "--run says what --steps would" in refused.err.replace("\n", " ")


def test_the_command_certifies_discrete_time():
    """--steps: the steps that are trained, the repair beside it over the same."""
    found = elbowroom("weighting", "iddpm", "--steps", "10", "--project", "--at", "0.5,1", "--json")
    assert found.json["t"] == [0.5, 1.0]
    assert found.json["certificate"]["steps"] == found.json["certificate"]["points"] == 10
    assert found.json["projected"]["certificate"]["is_bound"] is True
    assert found.json["slack"]["unit"].endswith("a run's curve gives bits/dim")


def test_explain_certifies_the_steps_that_are_trained():
    """objective.steps reaches the certificate; a weighting that is no bound shows its slack."""
    found = elbowroom("explain", "digits", "weighting=iddpm", "objective.steps=20", "--json").json
    assert found["certificate"]["steps"] == 20 and found["certificate"]["slack"] is not None
    said = elbowroom("explain", "digits", "weighting=iddpm", "objective.steps=20").out
    assert "a bound with slack holds" in said.replace("\n", " ")
    rising = elbowroom("explain", "digits", "weighting=fm", "objective.steps=20").out
    assert "over the 20 steps that are trained" in rising.replace("\n", " ")
    assert "slack" not in rising


def test_linear_masking_needs_less_slack_than_cosine():
    """EDM is nearer to a bound under linear masking, by slack as by isotonic distance."""
    cosine, linear = (certify(EDM(), s, Masked()).slack for s in (Cosine(eps=0), Linear(eps=0)))
    assert linear.rows[-1].slack < cosine.rows[-1].slack

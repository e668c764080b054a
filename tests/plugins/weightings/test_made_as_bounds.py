"""Weightings that are bounds by construction, and weightings that learn."""

from __future__ import annotations

import math

import pytest
import torch
from elbowroom import Level, Losses, Noise
from elbowroom.config.sections import load_config
from elbowroom.plugins.conformance import check_weighting
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.paper.certificate import certify, isotonic_projection
from elbowroom.plugins.schedules.gaussian import VPCosine
from elbowroom.plugins.schedules.masking import Cosine
from elbowroom.plugins.weightings.balanced import Balanced, rising
from elbowroom.plugins.weightings.cascade import Cascade
from elbowroom.plugins.weightings.paper import Sigmoid
from elbowroom.plugins.weightings.soft_min_snr import SoftMinSNR
from elbowroom.plugins.weightings.uncertainty import Uncertainty
from elbowroom.runs.folder import RunFolder
from hypothesis import given, strategies as st

from tests.helpers.tiny_run import same, tiny_config, trained_and_cut

SETTINGS = [(Masked(), Cosine()), (Gaussian(), VPCosine())]


@pytest.mark.parametrize(
    "make", [Cascade, Balanced, SoftMinSNR, Uncertainty, lambda: Uncertainty(of=Sigmoid())]
)
def test_conforms(make):
    """Every law of a weighting, and where it learns, after it has learned."""
    check_weighting(make())


shares = st.lists(st.floats(0, 1), min_size=4, max_size=4).filter(lambda a: sum(a) > 0.01)


@given(shares, st.floats(0.5, 4))
def test_every_mixture_of_steps_is_a_bound(masses, gap):
    """Whatever the shares and knots, under both processes."""
    weighting = Cascade((-gap, 0.0, 2 * gap), masses)
    for process, schedule in SETTINGS:
        assert certify(weighting, schedule, process).is_bound


def test_a_cascade_of_one_step_is_the_sigmoid_and_of_none_the_elbo():
    """Knot 0 of width 1 is the paper's sigmoid; the first share alone is w = 1."""
    level = Level.of(torch.linspace(0.01, 0.99, 50).double(), VPCosine(), Gaussian())
    torch.testing.assert_close(Cascade((0.0,), (0, 1))(level), Sigmoid()(level))
    assert (Cascade((0.0,), (3, 0))(level) == 1).all()


@pytest.mark.parametrize(
    "options",
    [
        {"knots": [1, 1]},
        {"knots": []},
        {"knots": [0, math.inf]},
        {"knots": [math.nan]},
        {"knots": [-1e308, 1e308]},
        {"shares": [1, 2]},
        {"knots": [0], "shares": [-1, 2]},
        {"knots": [0], "shares": [0, 0]},
        {"knots": [0], "shares": [1, math.inf]},
        {"knots": [0], "shares": [math.nan, 1]},
        {"knots": [0], "shares": [1e308, 1e308]},
    ],
    ids=str,
)
def test_cascades_that_mean_nothing_are_refused(options):
    """Knots must be finite and rise, shares must be masses with a finite sum above 0."""
    with pytest.raises(ValueError, match="must be"):
        Cascade(**options)


def test_soft_min_snr_is_a_half_where_the_snr_is_gamma():
    """And keeps the plain loss whole in pure noise."""
    process, schedule = Gaussian(), VPCosine()
    lam = torch.tensor([math.log(5.0), -12.0], dtype=torch.float64)
    level = Level.of(schedule.time(lam), schedule, process)
    torch.testing.assert_close(
        SoftMinSNR(5.0).plain_weight(level), torch.tensor([0.5, 1.0]).double(), atol=1e-5, rtol=0
    )


@given(st.lists(st.floats(0, 10), min_size=1, max_size=20))
def test_the_projection_without_a_loop_is_isotonic_regression(values):
    """The formula of max and min, against pooling neighbours."""
    w = torch.tensor(values, dtype=torch.float64)
    torch.testing.assert_close(rising(w), isotonic_projection(w), atol=1e-9, rtol=0)
    assert (rising(w).diff() >= 0).all()


def learned(loss, steps=60):
    weighting = Balanced(bins=8, memory=10_000)
    for step in range(steps):
        t = Noise.of(0, 256, step=step).uniform("t")
        each = loss(t)
        weighting.adapt(
            weighting.statistics(Losses(each.mean(), each, each, -t, t, torch.ones_like(t)))
        )
    return weighting


def test_balanced_evens_out_a_loss_that_falls():
    """w is 1/loss where that is a bound, and flat where it would fall."""
    middle = (torch.arange(8).double() + 0.5) / 8
    falls = learned(lambda t: 1 / (0.2 + t))
    due = 0.2 + middle
    torch.testing.assert_close(falls.w, due / due.mean(), rtol=0.03, atol=0)
    rises = learned(lambda t: 0.2 + t)
    torch.testing.assert_close(rises.w, torch.ones(8).double(), rtol=1e-6, atol=0)
    for weighting in (falls, rises):
        for process, schedule in SETTINGS:
            assert certify(weighting, schedule, process).is_bound


def test_uncertainty_learns_the_expected_loss():
    """Where the losses are known, e^u comes to them, and all levels count the same."""
    weighting = Uncertainty(knots=3)  # at lambda -16, 0, 16
    lam = torch.tensor([-16.0, 0.0, 16.0])
    loss = torch.tensor([0.5, 2.0, 8.0])
    optimiser = torch.optim.Adam(weighting.parameters(), 0.05)
    level = Level.at(lam, Gaussian())
    for _ in range(400):
        optimiser.zero_grad()
        (weighting(level) * loss + weighting.penalty(level)).mean().backward()
        optimiser.step()
    torch.testing.assert_close(weighting.u.exp(), loss, rtol=0.02, atol=0)


@pytest.mark.parametrize("name", ["balanced", "uncertainty"])
def test_a_run_certifies_what_it_learns_and_resumes_exactly(tmp_path, name):
    """The log has the certificate at each logging step; a stop leaves no trace."""
    config = load_config(tiny_config(steps=9, save_every=3, keep=9), {"weighting": name})
    last, resumed = trained_and_cut(config, tmp_path)
    assert same(last, resumed)
    rows = RunFolder(tmp_path / "whole").rows()
    assert all(0 <= row["negative_share"] <= 1 for row in rows)
    if name == "balanced":
        assert all(row["is_bound"] == 1 for row in rows)
        assert len(rows[-1]["curves"]["weighting"][1]) == 32

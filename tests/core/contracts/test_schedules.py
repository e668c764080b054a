"""Schedules against the reference values and their laws."""

from __future__ import annotations

import math

import pytest
import torch
from elbowroom import Level, Schedule
from elbowroom.plugins.conformance import check_schedule
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.schedules.gaussian import EDM, Flow, LinearLogSNR, VPCosine
from elbowroom.plugins.schedules.masking import Cosine, Linear, Polynomial
from hypothesis import given, strategies as st

from tests.helpers.paper import MASKING
from tests.helpers.reference import reference, tensor

BUILT_IN = [Cosine(), Linear(), Polynomial(), VPCosine(), Flow(), EDM(), LinearLogSNR()]
GAUSSIAN = {"edm": EDM, "iddpm": VPCosine, "sigmoid_k0": VPCosine, "fm": Flow}


@pytest.mark.parametrize("schedule", BUILT_IN, ids=lambda s: type(s).__name__)
def test_built_in_schedules_keep_every_law(schedule):
    """Each built-in schedule passes the kit that plugin authors use."""
    check_schedule(schedule)


@pytest.mark.parametrize("name", ["cosine", "linear"])
@pytest.mark.parametrize("eps", [0.0, 1e-4])
def test_masking_schedules_agree_with_the_reference(name, eps):
    """Share, log-SNR and ELBO weight agree with 30-digit arithmetic to 1e-10."""
    row = reference()["masked_table2"][f"schedule={name},eps={'0' if eps == 0 else '1e-4'}"]
    level = Level.of(tensor(reference()["t_points"]), MASKING[name](eps=eps), Masked())
    torch.testing.assert_close(level.share, tensor(row["alpha"]), rtol=1e-10, atol=0)
    torch.testing.assert_close(
        level.noise_share, tensor(row["one_minus_alpha"]), rtol=1e-10, atol=0
    )
    torch.testing.assert_close(level.log_snr, tensor(row["log_snr_lambda"]), rtol=1e-10, atol=1e-10)
    slope = tensor(row["md4_dgamma_times_alpha = dalpha/(1-alpha) (negative)"])
    torch.testing.assert_close(level.elbo_weight, -slope, rtol=1e-10, atol=0)


@pytest.mark.parametrize("name", list(GAUSSIAN))
def test_gaussian_schedules_agree_with_the_reference(name):
    """Log-SNR, rate, signal and noise agree with 30-digit arithmetic to 1e-10."""
    row = reference()["gaussian_table1"][name]
    level = Level.of(tensor(reference()["t_points"]), GAUSSIAN[name](eps=0.0), Gaussian())
    close = {"rtol": 1e-10, "atol": 1e-10}
    torch.testing.assert_close(level.log_snr, tensor(row["lambda_t"]), **close)
    torch.testing.assert_close(-level.rate, tensor(row["dlambda_dt"]), **close)
    signal = tensor(row["alpha_t (variance preserving) = sqrt(sigmoid(lambda))"])
    torch.testing.assert_close(level.share.sqrt(), signal, **close)
    torch.testing.assert_close(
        level.noise_share.sqrt(), tensor(row["sigma_t (variance preserving)"]), **close
    )


def test_float32_agrees_with_md4s_own_code():
    """In float32 the masking schedules are at least as exact as MD4's JAX code."""
    t = tensor(reference()["t_points"]).float()
    for name, row in reference()["md4_jax"]["schedule_jax_float32_eps1e-4"].items():
        level = Level.of(t, MASKING[name](), Masked())
        torch.testing.assert_close(level.share.double(), tensor(row["alpha"]), rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(
            level.log_snr.double(), tensor(row["logsnr"]), rtol=1e-4, atol=1e-4
        )


@given(exponent=st.floats(1, 6), t=st.floats(0.01, 0.99))
def test_the_polynomial_schedule_is_its_formula(exponent, t):
    """share = 1 - t^k at eps = 0."""
    share = Polynomial(exponent=exponent, eps=0).log_snr(tensor(t)).sigmoid()
    assert math.isclose(float(share), 1 - t**exponent, rel_tol=1e-9)


@given(t=st.floats(0.001, 0.999), which=st.sampled_from(BUILT_IN))
def test_the_inverse_inverts(t, which):
    """time(log_snr(t)) = t for every schedule."""
    assert math.isclose(float(which.time(which.log_snr(tensor(t)))), t, abs_tol=1e-9)


def test_times_beyond_the_range_are_the_ends():
    """A log-SNR no time reaches maps to the nearer end."""
    assert Cosine().time(tensor([100.0, -100.0])).tolist() == pytest.approx([0, 1], abs=1e-12)


def test_a_schedule_is_four_lines():
    """Giving lambda(t) is all it takes: rate and inverse follow."""

    class Mine(Schedule):
        def log_snr(self, t):
            return 5 - 10 * t

    check_schedule(Mine())


@pytest.mark.parametrize("make", [Cosine, VPCosine, Flow, EDM, Linear])
@pytest.mark.parametrize("eps", [-0.1, 0.5, 2])
def test_eps_out_of_range_is_refused(make, eps):
    """eps must leave room between the ends."""
    with pytest.raises(ValueError, match="eps"):
        make(eps=eps)


def test_a_rising_linear_log_snr_is_refused():
    """The two ends must be in order."""
    with pytest.raises(ValueError, match="log_snr_min"):
        LinearLogSNR(log_snr_max=0.0, log_snr_min=1.0)


def test_the_masked_cosine_schedule_stands_still_at_the_end():
    """Its rate is exactly zero at t = 1, in both precisions."""
    for dtype in (torch.float32, torch.float64):
        assert float(Cosine().rate(torch.ones(1, dtype=dtype))) == 0.0


ENDS = {"log_snr_max": 8.25, "log_snr_min": -6.5}
NAMED = [
    schedule(**ends)
    for schedule in (VPCosine, Flow, EDM)
    for ends in (ENDS, {"log_snr_max": 13.44}, {"log_snr_min": -8.76})
]


@pytest.mark.parametrize("schedule", NAMED, ids=str)
def test_an_end_can_be_named_by_its_log_snr(schedule):
    """The path begins and ends at the log-SNRs named, and keeps every law in between."""
    check_schedule(schedule)
    first, last = schedule.log_snr(torch.tensor([0.0, 1.0], dtype=torch.float64)).tolist()
    if schedule.log_snr_max is not None:
        assert first == pytest.approx(schedule.log_snr_max, abs=1e-9)
    if schedule.log_snr_min is not None:
        assert last == pytest.approx(schedule.log_snr_min, abs=1e-9)


def test_a_path_between_crossed_ends_is_refused():
    """An end that lies behind the other leaves no path."""
    with pytest.raises(ValueError, match="is not above log_snr_min"):
        VPCosine(log_snr_max=-3.0, log_snr_min=2.0)

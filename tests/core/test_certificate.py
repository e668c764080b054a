"""The certificate: what it says of the paper's weightings, and that its repair is one."""

from __future__ import annotations

import math

import attrs
import pytest
import torch
from elbowroom import ElbowroomError, Level, Weighting
from elbowroom.certificate import certify, isotonic_projection, midpoints
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.schedules.gaussian import EDM as EDMSchedule
from elbowroom.plugins.schedules.gaussian import VPCosine
from elbowroom.plugins.schedules.masking import Cosine, Linear
from elbowroom.plugins.weightings.isotonic import Isotonic
from elbowroom.plugins.weightings.paper import EDM, IDDPM, Elbo, FlowMatching, Sigmoid
from elbowroom.plugins.weightings.simple import Simple
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import reference

BOUNDS = [Elbo(), Sigmoid(), Sigmoid(k=2.0), FlowMatching(), Simple()]


@attrs.frozen
class Wave(Weighting):
    """Any smooth weighting: a sum of waves in t, lifted."""

    amplitudes: tuple[float, ...]
    lift: float

    def __call__(self, level):
        w = torch.full_like(level.t, self.lift)
        for n, amplitude in enumerate(self.amplitudes, 1):
            w = w + amplitude * (n * level.t).sin()
        return w


@pytest.mark.parametrize(
    ("weighting", "schedule", "distance"),
    [
        (IDDPM(), Cosine(eps=0), 0.336),
        (EDM(), Cosine(eps=0), 0.100),
        (IDDPM(), Linear(eps=0), 0.145),
        (EDM(), Linear(eps=0), 0.009),
    ],
)
def test_the_papers_two_exceptions_are_no_bounds(weighting, schedule, distance):
    """IDDPM and EDM fall with t under masking, by the stated isotonic distances."""
    certificate = certify(weighting, schedule, Masked())
    assert not certificate.monotone and not certificate.is_bound
    assert math.isclose(certificate.isotonic_distance, distance, abs_tol=6e-4)
    assert 0 < certificate.negative_share < 0.5 + 1e-9
    assert "not a bound" in certificate.verdict


@pytest.mark.parametrize("weighting", BOUNDS)
@pytest.mark.parametrize("schedule", [Cosine(eps=0), Cosine(), Linear()])
def test_the_others_are_bounds(weighting, schedule):
    """elbo, sigmoid, fm and simple never fall with t under masking."""
    certificate = certify(weighting, schedule, Masked())
    assert certificate.is_bound
    assert certificate.isotonic_distance == 0 and certificate.negative_share == 0


def test_simple_is_no_bound_for_gaussian_noise():
    """On the Gaussian cosine schedule simple is IDDPM up to a factor: it is not monotone."""
    simple, iddpm = (certify(w, VPCosine(), Gaussian()) for w in (Simple(), IDDPM()))
    assert not simple.is_bound
    assert math.isclose(simple.isotonic_distance, iddpm.isotonic_distance, rel_tol=1e-9)


def test_edm_is_nearly_monotone_for_its_own_process():
    """Under Gaussian noise on its own schedule EDM peaks late and falls little."""
    certificate = certify(EDM(), EDMSchedule(eps=0), Gaussian())
    assert not certificate.monotone and certificate.isotonic_distance < 0.005


@pytest.mark.parametrize(
    ("weighting", "schedule", "infinite"),
    [
        (FlowMatching(), Cosine(eps=0), True),
        (FlowMatching(), Cosine(), False),
        (Simple(), Cosine(eps=0), True),
        (Simple(), Cosine(), True),
        (Simple(), Linear(eps=0), False),
        (Elbo(), Cosine(eps=0), False),
        (EDM(), Cosine(eps=0), False),
        (Sigmoid(), Linear(eps=0), False),
    ],
)
def test_infinite_ends_are_told(weighting, schedule, infinite):
    """fm is infinite at t = 1 only for eps = 0, simple with cosine masking for any eps."""
    assert certify(weighting, schedule, Masked()).infinite_at_end is infinite


def test_the_peaks_are_where_the_reference_says():
    """EDM's maximum on the 1/2000 grid of the reference file."""
    row = reference()["masked_table2"]["schedule=cosine,eps=0"]["weightings"]["edm"]
    t = torch.arange(1, 2000, dtype=torch.float64) / 2000
    w = EDM()(Level.of(t, Cosine(eps=0), Masked()))
    assert math.isclose(float(t[w.argmax()]), row["argmax_t_on_1/2000_grid"], abs_tol=1e-9)
    assert math.isclose(float(w.max()), row["max_w_tilde"], rel_tol=1e-9)


@given(
    amplitudes=st.lists(st.floats(-2, 2), min_size=1, max_size=5).map(tuple),
    lift=st.floats(-1, 8),
)
@settings(max_examples=60)
def test_a_bound_is_a_non_negative_weighting_that_never_falls(amplitudes, lift):
    """For every weighting: it is certified if and only if its cascade has no negative weight."""
    wave = Wave(amplitudes, lift)
    w = wave(Level.of(midpoints(), Linear(), Masked()))
    ends = wave(Level.of(torch.tensor([0.0, 1.0], dtype=torch.float64), Linear(), Masked()))
    path = torch.cat([ends[:1], w, ends[1:]])
    tolerance = 1e-10 * path.abs().max()
    due = bool((path.diff() >= -tolerance).all()) and bool((path >= 0).all())
    certificate = certify(wave, Linear(), Masked())
    assert certificate.is_bound == due
    if due:
        assert certificate.isotonic_distance < 1e-6 and certificate.negative_share == 0


@given(
    amplitudes=st.lists(st.floats(-2, 2), min_size=1, max_size=5).map(tuple),
    lift=st.floats(0.5, 8),
    t=st.lists(st.floats(0, 1), min_size=2, max_size=20),
)
@settings(max_examples=60)
def test_the_repair_of_any_weighting_is_a_bound(amplitudes, lift, t):
    """Between any two times the repaired weighting does not fall, and it is certified."""
    repaired = Isotonic(Wave(amplitudes, lift)).prepare(Cosine(), Masked())
    w = repaired(Level.of(torch.tensor(sorted(t), dtype=torch.float64), Cosine(), Masked()))
    assert bool((w.diff() >= 0).all()) and bool((w >= 0).all())
    assert certify(Isotonic(Wave(amplitudes, lift)), Cosine(), Masked()).is_bound


@pytest.mark.parametrize("weighting", [*BOUNDS])
def test_the_repair_leaves_a_bound_alone(weighting):
    """A weighting that is a bound is its own repair, at any time."""
    t = torch.linspace(0.0005, 0.9985, 777, dtype=torch.float64)
    level = Level.of(t, Cosine(), Masked())
    repaired = Isotonic(weighting).prepare(Cosine(), Masked())
    torch.testing.assert_close(repaired(level), weighting(level), rtol=1e-12, atol=0)
    torch.testing.assert_close(repaired.plain_weight(level), weighting.plain_weight(level))


def test_the_repair_is_the_nearest_bound():
    """No other non-decreasing sequence tried is nearer to IDDPM than its projection."""
    w = IDDPM()(Level.of(midpoints(), Cosine(eps=0), Masked()))
    projected = isotonic_projection(w)
    best = float(((w - projected) ** 2).sum())
    for seed in range(50):
        other = projected + 0.05 * torch.randn(
            len(w), generator=torch.Generator().manual_seed(seed), dtype=torch.float64
        )
        other = other.sort().values
        assert float(((w - other) ** 2).sum()) > best


def test_the_repair_knows_nothing_without_a_schedule():
    """At a level without a time the repair answers NaN: it depends on the schedule."""
    repaired = Isotonic(EDM()).prepare(Cosine(), Masked())
    assert repaired(Level.at(torch.zeros(2, dtype=torch.float64), Masked())).isnan().all()


def test_a_weighting_that_is_not_finite_is_named():
    """A weighting with a pole inside (0, 1) is an error that says where."""

    class Pole(Weighting):
        def __call__(self, level):
            return torch.where(level.t > 0.5, torch.inf, level.t)

    with pytest.raises(ElbowroomError, match=r"t = 0\.5"):
        certify(Pole(), Linear(), Masked())


def test_negative_weights_are_told():
    """A rising weighting that starts below zero is no bound."""

    class Below(Weighting):
        def __call__(self, level):
            return level.t - 0.5

    certificate = certify(Below(), Linear(), Masked())
    assert certificate.monotone and not certificate.non_negative and not certificate.is_bound
    assert "negative" in certificate.verdict

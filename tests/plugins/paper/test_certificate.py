"""The certificate: what it says of the paper's weightings, and that its repair is one."""

from __future__ import annotations

import math
from collections.abc import Callable

import attrs
import numpy as np
import pytest
import torch
from elbowroom import ElbowroomError, Level, Weighting
from elbowroom.objective.loss import Objective
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.paper.certificate import END, certify, isotonic_projection, midpoints
from elbowroom.plugins.schedules.gaussian import EDM as EDMSchedule, VPCosine
from elbowroom.plugins.schedules.masking import Cosine, Linear
from elbowroom.plugins.time_samplers.uniform import Stratified
from elbowroom.plugins.weightings.isotonic import Isotonic
from elbowroom.plugins.weightings.paper import EDM, IDDPM, Elbo, FlowMatching, Sigmoid
from elbowroom.plugins.weightings.simple import Simple
from hypothesis import assume, example, given, settings, strategies as st
from torch import Tensor

from tests.helpers.reference import reference

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
@settings(max_examples=40)
def test_a_bound_is_a_non_negative_weighting_that_never_falls(amplitudes, lift):
    """For every weighting: it is certified if and only if its cascade has no negative weight."""
    wave = Wave(amplitudes, lift)
    t = torch.linspace(0, 1, 4001, dtype=torch.float64)
    path = wave(Level.of(t, Linear(), Masked()))
    worst = float(max((path.cummax(0).values - path).max(), -path.min()))
    worst = worst / max(float(path.abs().max()), 1e-9)
    assume(not 0 < worst < 1e-6)  # what the two grids see may differ by so much
    certificate = certify(wave, Linear(), Masked())
    assert certificate.is_bound == (worst <= 0)
    if certificate.is_bound:
        assert certificate.isotonic_distance < 1e-6 and certificate.negative_share == 0


@attrs.frozen
class Of(Weighting):
    """Any function of t."""

    function: Callable[[Tensor], Tensor]

    def __call__(self, level):
        return self.function(level.t)


def bump(centre: float, width: float) -> Callable[[Tensor], Tensor]:
    return lambda t: (-(((t - centre) / width) ** 2) / 2).exp()


@pytest.mark.parametrize(
    ("function", "where"),
    [
        (lambda t: torch.where(t == 1, -torch.inf, t), "t = 1:"),
        (lambda t: torch.where(t == 0, -torch.inf, t), "t = 0:"),
        (lambda t: torch.where(t == 1, torch.nan, t), "t = 1:"),
        (lambda t: torch.where(t >= 1 - 1e-5, torch.nan, t), r"t = 0\.99999"),
        (lambda t: torch.where(t <= 1e-7, torch.nan, 1.0), "t = 1e-12:"),
        (lambda t: torch.where(t >= 0.9999, torch.inf, t), r"t = 0\.9999"),
    ],
)
@pytest.mark.parametrize(("schedule", "process"), [(Cosine(), Masked()), (VPCosine(), Gaussian())])
def test_what_is_no_number_is_refused_at_the_very_ends_too(function, where, schedule, process):
    """NaN and minus infinity anywhere, and plus infinity inside, are an error that says where."""
    with pytest.raises(ElbowroomError, match=where):
        certify(Of(function), schedule, process)


BETWEEN = 0.5 + 0.4 / 2**14  # neither a point of the first grid nor of a cut cell

FALLS = {
    "a spike beyond 0.999": lambda t: torch.where((t - 0.9995).abs() < 1e-4, 5.0, 1 + t),
    "a spike next to the end": lambda t: torch.where((t - 1 + 1e-9).abs() < 1e-10, 5.0, 1 + t),
    "a fall at the very end": lambda t: torch.where(t == 1, 0.5, 1.0),
    "a bump between points": lambda t: 1 + bump(BETWEEN, 2e-6)(t),
    "a bump between points, on a slope": lambda t: 1 + t + bump(BETWEEN, 5e-6)(t),
    "a dip between points": lambda t: 1 + t - 0.1 * bump(BETWEEN, 5e-6)(t),
    "a slow fall": lambda t: 1 - 1e-7 * t,
}


@pytest.mark.parametrize("name", FALLS)
@pytest.mark.parametrize(("schedule", "process"), [(Cosine(), Masked()), (VPCosine(), Gaussian())])
def test_a_fall_is_found_wherever_it_hides(name, schedule, process):
    """Beyond 0.999, at the ends and between points; the certificate says between which times."""
    function = FALLS[name]
    certificate = certify(Of(function), schedule, process)
    assert not certificate.is_bound and certificate.fall is not None
    seen = torch.tensor([certificate.fall.high_t, certificate.fall.low_t], dtype=torch.float64)
    high, low = function(seen).tolist()
    assert seen[0] < seen[1] and high > low  # it can be checked
    assert (high, low) == (certificate.fall.high, certificate.fall.low)


TINY = {
    "a slow fall": lambda t: torch.where(t < 0.1, 2e-20 - 1e-20 * t, t),
    "a jump": lambda t: torch.where(t < 0.1, 2e-20, torch.where(t < 0.2, 1e-20, t)),
    "a bell far from its peak": lambda t: 1e-30 * bump(0.1, 0.02)(t) + (40 * (t - 1)).exp() * t**40,
}


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_a_fall_of_tiny_values_is_a_fall(name, scale):
    """Values are compared with each other, not with those elsewhere."""
    assert not certify(Of(lambda t: scale * TINY[name](t)), Linear(), Masked()).is_bound


@pytest.mark.parametrize(
    "function",
    [
        lambda t: ((1 + t**4).sqrt() ** 2 - 1).abs(),
        lambda t: (t.sin() ** 2 + t.cos() ** 2 - 1 + t**4).abs(),
        lambda t: ((t**4).exp().log1p().expm1() - 1).abs(),
        lambda t: 1e-320 * (1 + t),
    ],
)
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_rounding_is_no_fall(function, scale):
    """Where w vanishes by cancellation it wavers by the rounding of what it is computed from."""
    assert certify(Of(lambda t: scale * function(t)), Linear(), Masked()).is_bound


def test_a_verdict_says_what_was_seen():
    """How many points, the largest gap, and whether slopes were looked at: no grid proves more."""
    certificate = certify(Sigmoid(), Cosine(), Masked())
    assert certificate.points > 10_000 and 0 < certificate.largest_gap < 1e-4
    assert certificate.differentiated and "dw/dt looked at" in certificate.verdict
    assert f"non-decreasing at {certificate.points} points" in certificate.verdict
    assert "largest gap 6e-05" in certificate.verdict
    # the limit it states: flat to the last bit at every look, narrower than the gap
    unseen = certify(
        Of(lambda t: torch.where((t - 0.30002).abs() < 1e-6, 2.0, 1.0)), Cosine(), Masked()
    )
    assert unseen.is_bound and unseen.largest_gap > 2e-6


@pytest.mark.parametrize("times", [torch.Tensor.numpy, lambda t: t.detach().numpy()])
def test_what_cannot_be_differentiated_is_looked_at_all_the_same(times):
    """A weighting by way of numpy has no slope: the verdict says so, and falls are still found."""

    def by_numpy(t):
        return torch.from_numpy(np.sqrt(1 + times(t)))

    certificate = certify(Of(by_numpy), Cosine(), Masked())
    assert certificate.is_bound and not certificate.differentiated
    assert "cannot be differentiated" in certificate.verdict
    fallen = certify(Of(lambda t: by_numpy(t) - 0.5 * by_numpy(t) ** 2), Cosine(), Masked())
    assert not fallen.is_bound


def test_a_constant_has_slope_zero():
    """w = 1 does not depend on t, also inside ``no_grad``."""
    with torch.no_grad():
        assert certify(Elbo(), Cosine(), Masked()).differentiated
        assert certify(Sigmoid(), Cosine(), Masked()).differentiated


def test_a_weighting_with_parameters_is_certified():
    """Parameters that want gradients stand in nobody's way."""
    scale = torch.nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
    assert certify(Of(lambda t: scale * t), Cosine(), Masked()).is_bound
    assert not certify(Of(lambda t: scale * (1 - t)), Cosine(), Masked()).is_bound


# -- discrete time


def wiggle(t: Tensor) -> Tensor:
    """Rises from tenth to tenth, falls within each."""
    return 1 + t + 0.5 * (20 * torch.pi * t).sin()


def test_discrete_time_is_certified_at_its_steps():
    """A weighting that falls between the steps alone is a bound over them, and the other way."""
    assert not certify(Of(wiggle), Linear(), Masked()).is_bound
    over = certify(Of(wiggle), Linear(), Masked(), steps=10)
    assert over.is_bound and over.points == over.steps == 10
    assert "over the 10 steps that are trained" in over.verdict
    assert not certify(Of(wiggle), Linear(), Masked(), steps=40).is_bound
    finer = certify(IDDPM(), Cosine(), Masked(), steps=2000)
    assert finer.isotonic_distance == pytest.approx(0.336, abs=2e-3)


def test_simple_is_certified_with_the_price_of_whole_steps():
    """In discrete time simple is 1/(T step price), finite where it is infinite in continuous."""
    certificate = certify(Simple(), Cosine(), Masked(), steps=8)
    t = torch.arange(1, 9, dtype=torch.float64) / 8
    due = 1 / Level.of_step(t, 8, Cosine(), Masked()).elbo_weight
    assert certificate.is_bound and not certificate.infinite_at_end
    assert [certificate.start, certificate.end] == pytest.approx([float(due[0]), float(due[-1])])


def test_the_repair_of_discrete_time_is_that_of_its_steps():
    """Trained steps get the projection over the steps; one that rises over them stays."""
    process, t = Masked(), torch.arange(1, 11, dtype=torch.float64) / 10
    level = Level.of_step(t, 10, Linear(), process)
    kept = Isotonic(Of(wiggle)).prepare(Linear(), process, 10)
    torch.testing.assert_close(kept(level), wiggle(t), rtol=0, atol=0)
    objective = Objective.prepared(process, Linear(), Isotonic(IDDPM()), Stratified(), steps=10)
    due = isotonic_projection(IDDPM()(level))
    torch.testing.assert_close(objective.weighting(level), due, rtol=1e-12, atol=0)
    torch.testing.assert_close(objective.plain_weight(t - 0.05), due * level.elbo_weight)
    assert certify(Isotonic(IDDPM()), Linear(), process, steps=10).is_bound


# -- the repair


@given(
    amplitudes=st.lists(st.floats(-2, 2), min_size=1, max_size=5).map(tuple),
    lift=st.floats(0.5, 8),
    t=st.lists(st.floats(0, 1), min_size=2, max_size=20),
)
@settings(max_examples=15)
def test_the_repair_of_any_weighting_is_a_bound(amplitudes, lift, t):
    """Between any two times the repaired weighting does not fall, and it is certified."""
    repaired = Isotonic(Wave(amplitudes, lift)).prepare(Cosine(), Masked())
    w = repaired(Level.of(torch.tensor(sorted(t), dtype=torch.float64), Cosine(), Masked()))
    assert bool((w.diff() >= 0).all()) and bool((w >= 0).all())
    assert certify(Isotonic(Wave(amplitudes, lift)), Cosine(), Masked()).is_bound


@given(
    height=st.floats(0.01, 5),
    turns=st.floats(0, 6).map(lambda power: 10**power)
    | st.sampled_from([2**14, 2**16, 2000 / END]),
    slope=st.floats(-1, 3),
    near=st.floats(0, 1),
    scale=st.sampled_from([1e-3, 1e-5, 1e-9]),
    setting=st.sampled_from([(Cosine(), Masked()), (VPCosine(), Gaussian())]),
    steps=st.sampled_from([None, 7, 1000]),
)
@example(0.5, 2**16, 1.0, 0.4, 1e-5, (Cosine(), Masked()), None)
@example(0.5, 2000 / END, 1.0, 0.4, 1e-3, (VPCosine(), Gaussian()), None)
@settings(max_examples=40)
def test_the_repair_never_falls_however_w_wiggles(
    height, turns, slope, near, scale, setting, steps
):
    """By construction: to the last bit, at any times, also where no grid sees the wiggles."""
    schedule, process = setting

    def wiggly(t):
        inside = (t > 0.1) & (t < 0.9)  # with these turns it vanishes at an even grid's points
        return 5 + slope * t + height * torch.where(inside, (2 * torch.pi * turns * t).sin(), 0.0)

    repaired = Isotonic(Of(wiggly)).prepare(schedule, process, steps)
    spread = torch.rand(3000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    t = torch.cat([spread, (near + scale * (spread - 0.5)).clamp(0, 1)]).sort().values
    w = repaired(Level.of(t, schedule, process))
    assert bool((w.diff() >= 0).all()) and bool((w >= 0).all())


@pytest.mark.parametrize("weighting", [*BOUNDS])
def test_the_repair_leaves_a_bound_alone(weighting):
    """A weighting that is a bound is its own repair, at any time."""
    t = torch.linspace(0.0005, 0.9985, 777, dtype=torch.float64)
    level = Level.of(t, Cosine(), Masked())
    repaired = Isotonic(weighting).prepare(Cosine(), Masked())
    torch.testing.assert_close(repaired(level), weighting(level), rtol=1e-6, atol=0)
    plain = weighting.plain_weight(level)
    torch.testing.assert_close(repaired.plain_weight(level), plain, rtol=1e-6, atol=0)


def test_the_repair_of_an_infinite_weighting_has_a_finite_weight_on_the_loss():
    """Where w is infinite and the ELBO's own weight 0, the repair's plain weight is the given."""
    level = Level.of(torch.tensor([1.0], dtype=torch.float64), Cosine(), Masked())
    repaired = Isotonic(Simple()).prepare(Cosine(), Masked())
    assert repaired(level).tolist() == [math.inf]
    assert repaired.plain_weight(level).tolist() == [1.0]


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


def test_the_repair_uniform_baseline_without_a_schedule():
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

"""The two theorems, exactly."""

from __future__ import annotations

import attrs
import pytest
import torch
from elbowroom import CategoricalPrediction, DataSpec
from elbowroom.plugins.conformance.oracle import TableOracle
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.paper.cascade import cumulative_weights, table_cascade
from elbowroom.plugins.paper.theory import check_theorems, three_tokens
from elbowroom.plugins.schedules.masking import Cosine, Linear
from elbowroom.plugins.weightings.paper import Sigmoid
from elbowroom.registry.components import installed
from hypothesis import given, settings, strategies as st

from tests.helpers.reference import reference, tensor

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
MASKED = {"optimal": "cosine,optimal_marginals", "uniform": "cosine,uniform"}
GAUSSIAN = {"optimal": "optimal", "uniform": "linear_gaussian"}
NAMES = {
    "elbo": "elbo",
    "sigmoid_k0": "sigmoid",
    "iddpm": "iddpm",
    "simple_t1-clipped": "simple",
    "fm_t1-clipped": "fm",
}


@pytest.fixture(scope="module")
def checks():
    return {
        name: check_theorems(installed(), name, 8) for name in ("optimal", "uniform", "tempered")
    }


@pytest.mark.parametrize("denoiser", list(MASKED))
def test_the_masked_cascade_agrees_with_the_reference(checks, denoiser):
    """Bounds, increments and enumerated KLs are the reference numbers to 1e-9."""
    row = reference()["theorem_check_masked"]["results"][MASKED[denoiser]]
    check = checks[denoiser][0]
    torch.testing.assert_close(check.cascade.expected_bounds, tensor(row["E_L(i)"]), **CLOSE)
    torch.testing.assert_close(check.cascade.increments, tensor(row["increments"]), **CLOSE)
    torch.testing.assert_close(check.cascade.transition_kl, tensor(row["increments"]), **CLOSE)
    assert check.falling_somewhere == (row["x_with_negative_pointwise_increment"], row["n_x"])
    for key, name in NAMES.items():
        left, right = check.expected(check.theorem2[name])
        assert left == pytest.approx(row["theorem2"][key]["E_lhs"], rel=1e-9)
        assert left == pytest.approx(right, rel=1e-12)


@pytest.mark.parametrize("denoiser", list(GAUSSIAN))
def test_the_gaussian_cascade_agrees_with_the_reference(checks, denoiser):
    """Bounds and KLs by quadrature are the reference numbers to 1e-9."""
    row = reference()["theorem_check_gaussian_1d"]["results"][GAUSSIAN[denoiser]]
    check = checks[denoiser][1]
    torch.testing.assert_close(check.cascade.expected_bounds, tensor(row["E_L"]), **CLOSE)
    due = tensor(row["direct_KL_increments"])
    torch.testing.assert_close(check.cascade.transition_kl, due, **CLOSE)
    torch.testing.assert_close(check.cascade.increments, due, **CLOSE)
    left, right = check.expected(check.theorem2["sigmoid"])
    assert left == pytest.approx(row["thm2_sigmoid_k0_lhs"], rel=1e-9)
    assert right == pytest.approx(row["thm2_rhs"], rel=1e-9)


@pytest.mark.parametrize("denoiser", ["optimal", "uniform", "tempered"])
def test_both_theorems_hold(checks, denoiser):
    """Theorem 1 on average, Theorem 2 for every x, in both settings."""
    for check in checks[denoiser]:
        assert check.holds and "NOT" not in check.verdict
        assert bool((check.cascade.increments > 0).all())


def test_the_first_bound_is_the_elbo_and_the_last_tends_to_the_entropy(checks):
    """With ever more optimal steps the bound approaches minus the entropy from below."""
    bounds = checks["optimal"][0].cascade.expected_bounds
    assert float(bounds[-1]) < -three_tokens().entropy < float(bounds[-1]) + 1e-3


probabilities = st.lists(st.floats(0.05, 1), min_size=9, max_size=9)


@given(
    probabilities=probabilities,
    logits=st.lists(st.floats(-3, 3), min_size=2 * 3, max_size=2 * 3),
    steps=st.integers(2, 6),
    schedule=st.sampled_from([Cosine(eps=0), Linear(eps=0), Linear(eps=0.01)]),
)
@settings(max_examples=25)
def test_the_theorems_hold_for_any_distribution_and_any_denoiser(
    probabilities, logits, steps, schedule
):
    """Theorem 1 and 2 on random tables with random (bad) denoisers."""
    process = Masked().bind(DataSpec((2,), 3))
    weights = tensor(probabilities)
    from elbowroom.plugins.conformance.oracle import every_state

    table = TableOracle(every_state((2,), 3), weights / weights.sum())
    said = tensor(logits).reshape(2, 3)
    t = torch.arange(steps + 1, dtype=torch.float64) / steps
    cascade = table_cascade(
        process,
        schedule,
        table,
        lambda z, level: CategoricalPrediction(said.expand(len(z), -1, -1)),
        t,
    )
    torch.testing.assert_close(cascade.increments, cascade.transition_kl, rtol=1e-8, atol=1e-10)
    assert bool((cascade.increments >= -1e-10).all())
    left, right = cascade.theorem2(cumulative_weights(Sigmoid(), schedule, process, t))
    torch.testing.assert_close(left, right, rtol=1e-8, atol=1e-10)


def test_a_wrong_bound_would_be_noticed(checks):
    """If the bounds were off, the check would not hold: it compares independent numbers."""
    check = checks["optimal"][0]
    wrong = attrs.evolve(check.cascade, steps=check.cascade.steps * 1.01)
    assert not attrs.evolve(check, cascade=wrong).holds
    assert "NOT" in attrs.evolve(check, cascade=wrong).verdict

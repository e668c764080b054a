"""Weightings against the paper's tables, their identities and their laws."""

from __future__ import annotations

import math

import pytest
import torch
from elbowroom import Level
from elbowroom.plugins.conformance import check_weighting
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.schedules.gaussian import EDM as EDMSchedule, Flow, VPCosine
from elbowroom.plugins.schedules.masking import Cosine, Linear
from elbowroom.plugins.weightings.isotonic import Isotonic
from elbowroom.plugins.weightings.paper import EDM, IDDPM, FlowMatching, Sigmoid
from elbowroom.plugins.weightings.simple import Simple
from hypothesis import given, strategies as st

from tests.helpers.paper import MASKING, WEIGHTINGS
from tests.helpers.reference import reference, tensor

T = tensor(reference()["t_points"])


@pytest.mark.parametrize("weighting", [*WEIGHTINGS.values(), Isotonic(EDM()), Isotonic(Simple())])
def test_built_in_weightings_keep_every_law(weighting):
    """Each built-in weighting passes the kit that plugin authors use."""
    check_weighting(weighting)


@pytest.mark.parametrize("name", list(WEIGHTINGS))
@pytest.mark.parametrize("schedule", ["cosine", "linear"])
@pytest.mark.parametrize("eps", [0.0, 1e-4])
def test_masked_weightings_agree_with_table_2(name, schedule, eps):
    """w and the total cross-entropy weight agree with 30-digit arithmetic to 1e-10."""
    key = f"schedule={schedule},eps={'0' if eps == 0 else '1e-4'}"
    row = reference()["masked_table2"][key]["weightings"][name]
    level = Level.of(T, MASKING[schedule](eps=eps), Masked())
    torch.testing.assert_close(WEIGHTINGS[name](level), tensor(row["w_tilde"]), rtol=1e-10, atol=0)
    plain = WEIGHTINGS[name].plain_weight(level)
    torch.testing.assert_close(plain, tensor(row["ce_weight"]), rtol=1e-10, atol=0)


@pytest.mark.parametrize(
    ("name", "schedule"),
    [("edm", EDMSchedule), ("iddpm", VPCosine), ("sigmoid_k0", VPCosine), ("fm", Flow)],
)
def test_gaussian_weightings_agree_with_table_1(name, schedule):
    """w and the weight on the squared error agree with 30-digit arithmetic to 1e-10."""
    row = reference()["gaussian_table1"][name]
    level = Level.of(T, schedule(eps=0.0), Gaussian())
    torch.testing.assert_close(WEIGHTINGS[name](level), tensor(row["w_tilde"]), rtol=1e-10, atol=0)
    half = tensor(row["eps_mse_weight = -0.5*w_tilde*dlambda_dt"])  # ours weighs half the square
    torch.testing.assert_close(WEIGHTINGS[name].plain_weight(level), 2 * half, rtol=1e-10, atol=0)


@pytest.mark.parametrize("name", ["edm", "iddpm", "sigmoid_k0", "sigmoid_k2", "fm"])
@pytest.mark.parametrize("process", [Masked(), Gaussian()])
def test_weightings_are_functions_of_the_log_snr(name, process):
    """Without a schedule each has the value of the paper's table of w(lambda), for any process."""
    row = reference()["w_hat_of_lambda"]
    w = WEIGHTINGS[name](Level.at(tensor(row["lambda"]), process))
    torch.testing.assert_close(w, tensor(row[name]), rtol=1e-10, atol=0)


def test_simple_says_that_it_depends_on_the_schedule():
    """Without a schedule the simple weighting answers NaN."""
    assert Simple()(Level.at(tensor([0.0, 1.0]), Masked())).isnan().all()


@given(t=st.floats(0.001, 0.999))
def test_the_papers_identities(t):
    """The closed forms the paper and the reference file name, at every t."""
    t = tensor([t])
    flow = Level.of(t, Flow(eps=0), Gaussian())
    torch.testing.assert_close(FlowMatching().plain_weight(flow) / 2, 1 / (1 - t) ** 2)
    vp = Level.of(t, VPCosine(eps=0), Gaussian())
    torch.testing.assert_close(IDDPM().plain_weight(vp) / 2, torch.full_like(t, math.pi))
    torch.testing.assert_close(Simple()(vp), IDDPM()(vp) / (2 * math.pi))
    cosine, linear = (Level.of(t, s(eps=0), Masked()) for s in (Cosine, Linear))
    torch.testing.assert_close(Simple()(cosine), 2 / math.pi * (math.pi / 2 * t).tan())
    torch.testing.assert_close(Simple()(linear), Sigmoid()(linear))
    torch.testing.assert_close(Sigmoid().plain_weight(linear), torch.ones_like(t))
    due = math.pi / 2 * (1 + 1 / (math.pi / 2 * (1 - t)).cos()).sqrt()
    torch.testing.assert_close(FlowMatching().plain_weight(cosine), due)


@given(k=st.floats(-5, 5), share=st.floats(0.01, 0.99))
def test_the_masked_sigmoid_is_the_papers_formula(k, share):
    """(1 - a)/(1 - (1 - e^-k) a) of table 2."""
    level = Level.at(tensor([share]).logit(), Masked())
    due = (1 - share) / (1 - (1 - math.exp(-k)) * share)
    assert math.isclose(float(Sigmoid(k=k)(level)), due, rel_tol=1e-9)


def test_simple_weighs_every_plain_loss_the_same_even_where_it_is_infinite():
    """At t = 1 of the masked cosine schedule w is infinite, its weight on the loss is 1."""
    end = Level.of(torch.ones(1, dtype=torch.float64), Cosine(), Masked())
    assert Simple()(end).isinf().all()
    assert Simple().plain_weight(end).tolist() == [1.0]


def test_nothing_overflows_far_out():
    """Every weighting that is bounded stays finite at infinite lambda."""
    far = Level.at(tensor([-math.inf, math.inf]), Masked())
    for name in ("elbo", "edm", "iddpm", "sigmoid_k0"):
        assert WEIGHTINGS[name](far).isfinite().all(), name


def test_an_unprepared_repair_says_so():
    """The isotonic repair cannot be used before it knows its schedule."""
    with pytest.raises(RuntimeError, match="prepare"):
        Isotonic(EDM())(Level.at(tensor([0.0]), Masked()))

"""The certificate of several parts, against enumeration."""

from __future__ import annotations

import elbowroom as er
import pytest
import torch
from elbowroom import DataSpec, Level, Weighting
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.paper.parts import certify_field, certify_parts, common_minorant
from elbowroom.plugins.schedules.masking import Linear
from elbowroom.plugins.weightings.paper import EDM, Sigmoid
from hypothesis import given, strategies as st

from tests.core.objective.test_levels_per_position import TABLE, cost_at, nodes
from tests.helpers.command import elbowroom

PROCESS, SCHEDULE = Masked().bind(DataSpec((3,), 3)), Linear(eps=1e-4)


class Power(Weighting):
    """w = t^k."""

    def __init__(self, k: float) -> None:
        self.k = k

    def __call__(self, level: Level):
        return level.t**self.k


@given(st.lists(st.lists(st.floats(0, 10), min_size=6, max_size=6), min_size=1, max_size=3))
def test_the_minorant_is_the_largest_that_does_not_fall(rows):
    """Below all rows, non-decreasing, and it touches a row at or after every point."""
    w = torch.tensor(rows, dtype=torch.float64)
    m = common_minorant(w)
    assert bool((m <= w + 1e-12).all()) and bool((m.diff() >= 0).all())
    assert all(bool((w[:, k:] <= m[k] + 1e-12).any()) for k in range(6))


def test_on_a_shared_clock_the_objective_is_above_the_bound_of_the_minorant():
    """Enumerated for three tokens with the weights 1, 2 t and 3 t^2 and an exact denoiser."""
    t, weights = nodes()
    powers = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)
    w = (1 + powers) * t[:, None] ** powers  # [T, 3]
    m = common_minorant(w.T)
    quadrature = list(zip(weights.tolist(), t, w, m, strict=True))
    objective = sum(q * cost_at(a.expand(3), b) for q, a, b, _ in quadrature)
    below = sum(q * cost_at(a.expand(3), c.expand(3)) for q, a, _, c in quadrature)
    assert below < objective
    # the bound of m is a mixture of improved bounds: at least the least of them, the entropy of
    # data given z at the smallest time that m weighs, times its total weight; at most m(1) H
    assert 0 < below <= float(m[-1]) * TABLE.entropy + 1e-9


def test_verdicts_on_a_shared_clock():
    """Equal weights are one bound; others have a rest; a weight that is zero late has no share."""
    same = certify_parts({"a": Sigmoid(), "b": Sigmoid()}, SCHEDULE, PROCESS)
    assert same.is_bound and "the weights are equal" in same.verdict
    scaled = certify_parts({"a": Sigmoid(), "b": Sigmoid()}, SCHEDULE, PROCESS, balance={"b": 2.0})
    assert scaled.is_bound and scaled.shares["b"] == pytest.approx(0.5)
    assert "plus a non-negative rest" in scaled.verdict
    mixed = certify_parts({"a": Power(0.0), "b": Power(1.0)}, SCHEDULE, PROCESS)
    assert mixed.shares["a"] == pytest.approx(0.5, abs=2e-3)
    assert mixed.shares["b"] == pytest.approx(1.0, abs=2e-3)


def test_verdicts_with_independent_times():
    """Any balance of monotone weights; a weight that falls is named."""
    fine = certify_parts(
        {"image": Sigmoid(), "label": Power(1.0)},
        SCHEDULE,
        PROCESS,
        "independent",
        balance={"label": 40.0},
    )
    assert fine.is_bound and "any balance" in fine.verdict
    bad = certify_parts({"image": Sigmoid(), "label": EDM()}, SCHEDULE, PROCESS, "independent")
    assert not bad.is_bound and bad.verdict.startswith("label is not a bound: w falls")


def test_fields():
    """Monotone products are bounds; a field that falls along its own time is not."""
    rising = certify_field(lambda t: t, 2)
    assert rising.is_bound and rising.divergence == pytest.approx(2, abs=1e-6)
    traded = certify_field(lambda t: torch.stack([2 * t[:, 0] + t[:, 1], 2 - t[:, 1]], 1), 2)
    assert traded.is_bound  # 2 - 1 >= 0: one part may fall where the other rises
    falling = certify_field(lambda t: torch.stack([1 - t[:, 0], t[:, 0] + 0 * t[:, 1]], 1), 2)
    assert not falling.is_bound and "not shown to be a bound" in falling.verdict


@pytest.mark.parametrize(
    ("parts", "balance", "message"),
    [
        ({"a": Sigmoid()}, None, "at least two"),
        ({"a": Sigmoid(), "b": EDM()}, {"a": 0}, "not positive"),
    ],
)
def test_wrong_parts(parts, balance, message):
    """In one sentence."""
    with pytest.raises(er.ElbowroomError, match=message):
        certify_parts(parts, SCHEDULE, PROCESS, balance=balance)


def test_the_command_shows_what_several_parts_bound():
    """With a factor, as JSON, and with a message for wrong input."""
    ran = elbowroom("weighting", "sigmoid", "--part", "label=2*elbo", "--clock", "independent")
    assert ran.code == 0 and "any balance between the parts" in " ".join(ran.out.split())
    ran = elbowroom("weighting", "sigmoid", "--part", "label=2*sigmoid", "--json")
    assert ran.json["parts"]["shares"]["label"] == pytest.approx(0.5)
    for wrong, message in (
        (["--part", "label"], "NAME=SPEC"),
        (["--part", "a=elbo", "--clock", "x"], "shared or independent"),
    ):
        ran = elbowroom("weighting", "sigmoid", *wrong)
        assert ran.code != 0 and message in " ".join(ran.err.split())

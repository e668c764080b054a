"""Differences between models, seed by seed."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from elbowroom.plugins.compare.differences import differences, leads, student
from elbowroom.plugins.evaluation.metric import Measurement
from hypothesis import given, strategies as st

from tests.helpers.reporting import models

VALUES = st.lists(
    st.tuples(st.floats(-100, 100), st.floats(-100, 100)), min_size=2, max_size=5
)  # a seed's two models


def made(table, better="lower"):
    """Models of ``{label: {seed: value}}``; None did not finish."""
    return models(
        Path("/nowhere"),
        {
            label: {
                s: None if v is None else Measurement(v, None, better) for s, v in seeds.items()
            }
            for label, seeds in table.items()
        },
    )


@given(VALUES, st.lists(st.floats(-100, 100), min_size=5, max_size=5))
def test_what_a_seed_does_to_both_cancels(values, shifts):
    """A shift that both models of a seed share changes no difference."""

    def between(shift):
        first, other = ({s: v[k] + shift[s] for s, v in enumerate(values)} for k in (0, 1))
        return differences(made({"a": first, "b": other})).models[1]["fid"]

    plain, shifted = between([0.0] * 5), between(shifts)
    assert shifted.mean == pytest.approx(plain.mean, abs=1e-9)
    assert shifted.sd == pytest.approx(plain.sd, abs=1e-9)


def test_only_seeds_that_both_finished_count():
    """Of three seeds two are shared; with one nothing is said."""
    table = {
        "a": {0: 1.0, 1: 2.0, 2: None},
        "b": {0: 3.0, 1: 5.0, 2: 100.0},
        "c": {0: 1.0, 1: None},
    }
    found = differences(made(table))
    assert found.to == "a"
    assert found.models[0] == found.models[2] == {}
    one = attrs.asdict(found.models[1]["fid"])
    assert one.pop("error_includes") == ["training seeds"]
    assert one == pytest.approx(
        {"mean": 2.5, "sd": 0.5**0.5, "n": 2, "all_agree": True, "for_the_better": False,
         "interval": 12.706 / 2, "beyond_noise": False, "vacuous": False, "standard_error": 0.5}
    )  # fmt: skip
    assert differences(made({"a": {0: 1.0}, "b": {0: 2.0}})) is None
    assert differences([]) is None


def test_a_first_model_that_failed_is_passed_over():
    """The next one that finished stands in for it."""
    found = differences(
        made({"a": {0: None, 1: None}, "b": {0: 1.0, 1: 1.0}, "c": {0: 0.0, 1: 3.0}})
    )
    assert found.to == "b" and found.models[:2] == [{}, {}]
    assert found.models[2]["fid"].all_agree is False


@pytest.mark.parametrize(("better", "good"), [("lower", True), ("higher", False), (None, None)])
def test_the_measurement_knows_what_is_better(better, good):
    """Less FID is better, less IS is worse, and a distance is neither."""
    found = differences(made({"a": {0: 3.0, 1: 3.0}, "b": {0: 1.0, 1: 2.0}}, better))
    assert found.models[1]["fid"].for_the_better is good
    assert found.models[1]["fid"].all_agree


@pytest.mark.parametrize("freedom", [1, 4, 10, 11, 30, 1000])
def test_the_quantile_is_students(freedom):
    """Tabulated or expanded, it is scipy's to three digits."""
    from scipy.stats import t

    assert student(freedom) == pytest.approx(t.ppf(0.975, freedom), rel=1e-3)


def test_two_seeds_that_agree_are_not_enough():
    """Two differences of one sign may be chance; ten alike are not."""
    few = differences(made({"a": {0: 3.0, 1: 3.0}, "b": {0: 1.0, 1: 2.0}})).models[1]["fid"]
    assert few.all_agree and not few.beyond_noise
    many = {"a": dict.fromkeys(range(10), 3.0), "b": {s: 1.0 + s % 2 for s in range(10)}}
    assert differences(made(many)).models[1]["fid"].beyond_noise


def test_the_best_leads_only_beyond_the_noise_of_seeds():
    """Against every other model, over more than one seed; rounding of one seed is no lead."""

    def first_leads(table):
        return leads(made(table), "fid", 0)

    far = {s: 9.0 + 0.1 * (s % 2) for s in range(4)}
    best = dict.fromkeys(range(4), 1.0)
    near = {0: 1.1, 1: 0.9, 2: 1.1, 3: 1.0}
    assert first_leads({"a": best, "b": far})
    assert not first_leads({"a": best, "b": far, "c": near})
    assert not first_leads({"a": {0: 1.0}, "b": {0: 9.0}})
    assert not first_leads({"a": best})

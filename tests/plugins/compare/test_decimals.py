"""Measurements in a table: as many decimals as they deserve, the same down a column."""

from __future__ import annotations

import pytest
from elbowroom.plugins.compare.results import Summary
from elbowroom.plugins.compare.tables import Column, decimals
from hypothesis import given, strategies as st


def measurement(mean, error=None, floor=None):
    return Summary(
        mean=mean, sd=None, n=1, standard_error=error, error_includes=[], heading="", better=None,
        floor=floor, uniform_baseline=None, vacuous=False, of={},
    )  # fmt: skip


def column(measurements):
    there = [one for one in measurements if one is not None and one.mean is not None]
    values = [value for one in there for value in (one.mean, one.floor)]
    places = decimals(values, [one.standard_error for one in there])
    return Column(name="m", title="m", decimals=places)


CASES = {
    "errors": (
        [measurement(1.6752, error=0.0141), measurement(1.7, error=0.0152)],
        ["1.675 ± 0.014", "1.700 ± 0.015"],
    ),
    "errors of other sizes": (
        [measurement(13.244, 1.13), measurement(2.26, 0.2)],
        ["13.24 ± 1.13", "2.26 ± 0.20"],
    ),
    "no spread": (
        [measurement(1.1182), measurement(0.8828), measurement(1.5)],
        ["1.12", "0.88", "1.50"],
    ),
    "one far out": (
        [measurement(m, floor=1.5) for m in (25.031, 7.482, 8.46, 6.457)],
        ["25.03", "7.48", "8.46", "6.46"],
    ),
    "a spread of nothing": (
        [measurement(0.001, error=0.001), measurement(0.0, error=0.0)],
        ["0.0010 ± 0.0010", "0.0000 ± 0.0000"],
    ),
    "missing": ([measurement(123456.7), None, measurement(None)], ["123457", None, None]),
    "only real data have some": (
        [measurement(0.0, error=0.0, floor=0.01114)],
        ["0.0000 ± 0.0000"],
    ),
    "nothing": ([measurement(0.0)], ["0"]),
    "empty": ([], []),
}


@pytest.mark.parametrize(("measurements", "shown"), CASES.values(), ids=CASES)
def test_a_column_has_one_number_of_decimals(measurements, shown):
    """Two digits of the middle spread; three of the middle one where none has a spread."""
    made = column(measurements)

    def cell(one):
        value = made.value(one)
        error = None if value is None else made.error(one)
        return value if error is None else f"{value} ± {error}"

    assert [cell(one) for one in measurements] == shown


@given(st.floats(1e-4, 1e4), st.floats(-1e6, 1e6))
def test_what_is_shown_is_near_to_what_is_meant(spread, mean):
    """Rounding takes away less than a tenth of the spread."""
    made = column([measurement(mean, spread)])
    assert abs(float(made.value(measurement(mean, spread))) - mean) <= 0.1 * spread

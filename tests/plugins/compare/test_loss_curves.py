"""Curves of training: smoothed without being moved."""

from __future__ import annotations

import random
import statistics

import pytest
from elbowroom.plugins.compare.loss_curves import _by_level, _mean_error, smooth
from hypothesis import given, strategies as st


@given(st.floats(-5, 5), st.floats(-5, 5), st.integers(20, 300))
def test_a_straight_line_stays_where_it_is(slope, start, n):
    """Windows are symmetric but at the very end; a constant has no spread."""
    x, y, spread = smooth({k: start + slope * k for k in range(n)})
    inner = [k for k, at in enumerate(x) if at < n - 1 - max(2, n / 38)]
    for k in inner:
        assert y[k] == pytest.approx(start + slope * x[k], abs=1e-6)
    assert max(spread) <= abs(slope) * n + 1e-9


def test_noise_is_averaged_and_its_size_is_said():
    """About a constant the mean is nearer to it than the values, the band their deviation."""
    random.seed(0)
    values = [3 + random.gauss(0, 0.5) for _ in range(800)]
    _, y, spread = smooth(dict(enumerate(values)))
    assert statistics.stdev(y[20:]) < 0.2 * statistics.stdev(values)
    assert statistics.fmean(spread[20:]) == pytest.approx(0.5, rel=0.1)


def test_few_values_are_left_alone():
    """Below twenty there is nothing to smooth."""
    assert smooth(dict.fromkeys(range(19), 1.0)) is None
    assert smooth(dict.fromkeys(range(20), 1.0))[1] == [1.0] * 20


def test_the_error_by_level_is_that_of_a_mean():
    """Over the windows of the last quarter, and over seeds; one window has none."""
    rows = [{"step": s, "curves": {"e": [[0.0, 1.0], [float(s % 2), 2.0]]}} for s in range(1, 9)]
    means, errors = _by_level(rows, "e")
    assert means == {0.0: 0.5, 1.0: 2.0}
    assert errors[0.0] == pytest.approx(statistics.stdev([1.0, 0.0]) / 2**0.5)
    assert _mean_error([errors] * 4) == pytest.approx([errors[0.0] / 2, 0.0])
    assert _by_level(rows[:1], "e") == ({0.0: 1.0, 1.0: 2.0}, {})
    assert _mean_error([errors, {}]) is None

"""Tests must pass on a machine that has other things to do."""

from __future__ import annotations

import re
import time
from pathlib import Path

from hypothesis import HealthCheck, given, settings, strategies as st


def test_no_example_has_a_deadline():
    """Neither a slow example nor a slow choice of examples is a failure, in any test."""
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check
    files = Path(__file__).parents[1].rglob("*.py")
    assert [f for f in files if re.search(r"deadline=(?!None)\w", f.read_text("utf-8"))] == []


@settings(max_examples=1)
@given(st.none())
def test_an_example_may_take_longer_than_usual(nothing):
    """Hypothesis's own deadline is 0.2 s."""
    time.sleep(0.25)

"""A metric that says what it saw also says how that is merged."""

from __future__ import annotations

import attrs
import pytest
from elbowroom import Metric, PluginError
from elbowroom.registry.component import Component, Owner

SOURCE = """
import elbowroom

class Half(elbowroom.Metric):
    def state(self):
        return {}

    def compute(self):
        return {}
"""


def test_a_state_without_a_merge_is_refused_where_the_class_is_made():
    """Not hours later, when the first evaluation on several ranks ends."""
    with pytest.raises(
        TypeError, match=r"Half defines state but not merge\. Define merge\(states\)"
    ):

        class Half(Metric):
            def state(self):
                return {}

            def compute(self):
                return {}


def test_a_plugin_with_such_a_metric_says_so(tmp_path, monkeypatch):
    """The component is refused with its name, its author and the sentence."""
    (tmp_path / "half_a_metric.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    half = Component("metric", "half", Owner("dist-half", "1"), "half_a_metric:Half")
    with pytest.raises(PluginError, match=r"'half' of dist-half 1 .*defines state but not merge"):
        half.load()


def test_a_merge_may_be_inherited_and_a_state_left_out():
    """From a class of one's own, with attrs' slots or without."""

    class Whole(Metric):
        def state(self):
            return {}

        def merge(self, states):
            self.seen = states

        def compute(self):
            return {}

    @attrs.define(eq=False)
    class Other(Whole):
        split: str = "test"

        def state(self):
            return {"nothing": 0}

    class Alone(Metric):
        def compute(self):
            return {}

    assert Other().merges
    assert not Alone().merges

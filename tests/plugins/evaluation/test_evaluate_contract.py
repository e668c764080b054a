"""What the conformance kit asks of a metric beyond its arithmetic."""

from __future__ import annotations

import pytest
import torch
from elbowroom import Metric
from elbowroom.plugins.conformance import check_metric
from elbowroom.plugins.evaluation.metric import Measurement, Subject, as_measurement

from tests.helpers.pictures import Pictures

SAMPLES = torch.arange(40).reshape(10, 4) % 5


class Total(Metric):
    def __init__(self):
        self.total = 0.0

    def update(self, samples, labels):
        self.total += float(samples.double().sum())

    def compute(self):
        return {"total": Measurement(self.total, 0.1, "lower", 2.0, {"against": "nothing"})}


class Unwritable(Total):
    def compute(self):
        return {"total": Measurement(self.total, of={"network": object()})}


class Dicey(Total):
    def compute(self):
        return {"total": self.total + float(torch.rand(()))}


class Compares(Total):
    def prepare(self, subject):
        self.total = float(len(subject.data.split("test")))


def test_a_metric_with_measurements_keeps_the_laws():
    """Errors, floors and protocols are welcome."""
    check_metric(Total(), SAMPLES)


@pytest.mark.parametrize(
    ("metric", "sentence"),
    [(Unwritable, "written as JSON"), (Dicey, "whatever the global random generator does")],
)
def test_broken_metrics_are_caught(metric, sentence):
    """The sentence names the law."""
    with pytest.raises(AssertionError, match=sentence):
        check_metric(metric(), SAMPLES)


def test_a_metric_that_compares_is_shown_the_data_first():
    """``data`` is what it is prepared with."""
    seen = []

    class Spy(Compares):
        def compute(self):
            seen.append(self.total)
            return super().compute()

    check_metric(Spy(), SAMPLES, Pictures())
    assert seen[0] == 60 + float(SAMPLES.sum())


def test_what_metrics_share_is_made_once():
    """By key."""
    made = []
    subject = Subject(Pictures())
    for key in ("a", "a", "b"):
        assert subject.once(key, lambda key=key: made.append(key) or key) == key
    assert made == ["a", "b"]


def test_a_plain_number_is_a_measurement():
    """Of which nothing more is known."""
    assert as_measurement(3) == Measurement(3.0)

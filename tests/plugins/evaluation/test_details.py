"""Details of metrics outlive evaluations without them."""

from __future__ import annotations

import json

import pytest
from elbowroom import EvaluationProtocol, Measurement, Metric
from elbowroom.plugins.evaluation.details import details_file, write_details
from elbowroom.plugins.evaluation.run import evaluate_run, evaluation_folder
from elbowroom.plugins.training.run import train

from tests.helpers.tiny_run import tiny_config


class Tells(Metric):
    """A metric with more to say than a number."""

    uses_samples = False

    def __init__(self, more: int = 1) -> None:
        self.more = more

    def compute(self):
        return {"told": Measurement(1.0)}

    def details(self):
        return {"more": self.more}


TELLS = f"{__name__}:Tells"


def test_an_evaluation_leaves_the_details_of_other_metrics(tmp_path):
    """Those of a metric are what it found last; figures.json is of the last evaluation alone."""
    train(tiny_config(steps=2), tmp_path / "run", without={"console", "tensorboard"})
    kept = details_file(evaluation_folder(tmp_path / "run"), TELLS)
    for more in (1, 2):
        asked = EvaluationProtocol(metrics=({"name": TELLS, "more": more},), seed=more)
        report = evaluate_run(tmp_path / "run", (), asked)
        record = json.loads(kept.read_text())
        assert record["details"] == report.record["details"] == {TELLS: {"more": more}}
        assert (record["step"], record["protocol"]["seed"]) == (2, more)
        assert record["config"]["train"]["steps"] == 2
    last = evaluate_run(tmp_path / "run", (), EvaluationProtocol(metrics=({"name": "bpd"},)))
    assert last.record["details"] == {}
    assert json.loads(kept.read_text()) == record


@pytest.mark.parametrize("name", ["../../out", "a/b.py:C", "curve 2", "x" * 400])
def test_a_file_is_in_the_folder_whatever_the_metric_is_called(tmp_path, name):
    """Names may be paths to code."""
    write_details(tmp_path, {}, {name: 1})
    assert details_file(tmp_path, name).resolve().parent == (tmp_path / "details").resolve()
    assert [path.parent for path in tmp_path.rglob("*.json")] == [tmp_path / "details"]

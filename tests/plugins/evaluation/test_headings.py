"""What a table calls a measurement: its features and its number of samples stand in its heading."""

from __future__ import annotations

import csv
import io

import attrs
import elbowroom as er
import pytest
from elbowroom.plugins.compare.report import page
from elbowroom.plugins.compare.results_files import as_csv
from elbowroom.plugins.compare.tables import heading_of
from elbowroom.plugins.evaluation.metric import heading
from elbowroom.plugins.evaluation.run import evaluate_run, read_evaluation
from elbowroom.plugins.training.run import train

from tests.helpers.command import elbowroom
from tests.helpers.pictures import LINEAR
from tests.helpers.reporting import results, summarised
from tests.helpers.tiny_run import tiny_config

CLASSIFIER = {"features": "classifier", "features_test_accuracy": 0.9833, "samples": 1000}
SAID = "FID train, digits classifier 98 %, 1000 samples"


@pytest.mark.parametrize(
    ("title", "of", "said"),
    [
        ("FID train", {**CLASSIFIER, "data": "digits"}, SAID),
        ("IS", CLASSIFIER, "IS, classifier 98 %, 1000 samples"),
        (
            "FID",
            {"features": "inception", "samples": 50_000, "reference": "imagenet64 train"},
            "FID, inception, 50k samples vs imagenet64 train",
        ),
        ("FID", {"features": "inception", "samples": 12_345}, "FID, inception, 12345 samples"),
        ("bits/dim", {"split": "36 test examples", "data": "x"}, "bits/dim, 36 test examples"),
        ("copied", {"samples": 20}, "copied, 20 samples"),
        ("mine", {}, "mine"),
    ],
)  # fmt: skip
def test_a_heading_names_features_and_samples(title, of, said):
    """And how well a network of one data set knows it, and what the samples are compared with."""
    assert heading(title, of) == said


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("headings") / "run"
    train(tiny_config(steps=2), folder, without={"console", "tensorboard"})
    return folder


def test_evaluations_say_it_in_the_terminal_and_in_json(run, tmp_path):
    """Under the title of the metric, or the name where it has none."""
    words = ("evaluate", run, "--metric", "fid", "--metric", "bpd", "--features", LINEAR)
    ran = elbowroom(*words, "--samples", 12, "--out", tmp_path / "e")
    assert "FID train, linear, 12 samples" in ran.out
    assert "bits/dim, " in ran.out
    record = read_evaluation(tmp_path / "e")
    assert record["figures"]["fid_test"]["heading"] == "FID test, linear, 12 samples"
    assert record["figures"]["fid_test"]["of"]["data"] == "digits"


def test_a_metric_may_have_looked_at_fewer_samples(run, tmp_path):
    """Its own word counts."""
    metric = {"name": "precision-recall", "features": LINEAR, "limit": 9}
    asked = er.EvaluationProtocol(metrics=(metric,), samples=12)
    found = evaluate_run(run, (), asked, out=tmp_path / "e").measurements
    assert found["recall"]["heading"] == "recall, linear, 9 samples"


def headed(tmp_path, *said):
    """Results whose models say these headings of FID."""
    made = results(tmp_path)
    for model, one in zip(made.models, said, strict=True):
        (point,) = model.points
        found = dict(point.evaluated.measurements)
        found["fid_train"] = attrs.evolve(found["fid_train"], heading=one)
        point.evaluated = attrs.evolve(point.evaluated, measurements=found)
        summarised(model)
    return made


def test_comparisons_say_it_in_report_and_csv(tmp_path):
    """Where it is the same for all models; otherwise the title stands alone."""
    made = headed(tmp_path, SAID, SAID)
    assert heading_of(made, "fid_train") == SAID
    assert SAID in page(made)
    (first, *_) = csv.DictReader(io.StringIO(as_csv(made)))
    assert first["fid_train_heading"] == SAID
    made = headed(tmp_path / "other", SAID, "FID train, other")
    assert heading_of(made, "fid_train") == "FID train"


def test_results_of_before_have_titles(tmp_path):
    """Evaluations that say no heading are shown as they were."""
    assert heading_of(results(tmp_path), "fid_train") == "FID train"
    assert heading_of(headed(tmp_path / "other", "", SAID), "fid_train") == "FID train"

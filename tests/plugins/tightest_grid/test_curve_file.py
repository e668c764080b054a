"""A run's curve is kept, found, and told apart from others."""

from __future__ import annotations

import hashlib
import json

import elbowroom as er
import numpy as np
import pytest
import torch
from elbowroom import ElbowroomError, EvaluationProtocol
from elbowroom.plugins.evaluation.details import details_file
from elbowroom.plugins.evaluation.run import evaluate_run
from elbowroom.plugins.evaluation.shards import Shards
from elbowroom.plugins.sampling.write import sample_run
from elbowroom.plugins.tightest_grid.tightest import Tightest
from elbowroom.plugins.training.run import train
from elbowroom.runs.load import load_run

from tests.helpers.command import elbowroom
from tests.helpers.tiny_run import tiny_config

CURVE = EvaluationProtocol(metrics=({"name": "curve", "levels": 16, "draws": 8},))
OTHERS = EvaluationProtocol(metrics=("neighbours",), samples=4)


@pytest.fixture
def run(tmp_path):
    """A run whose curve was measured."""
    train(tiny_config(steps=2), tmp_path / "run", without={"console", "tensorboard"})
    evaluate_run(tmp_path / "run", (), CURVE)
    return tmp_path / "run"


def levels_of(run, **grid):
    asked = f"sampler.grid={json.dumps({'name': 'tightest', **grid})}"
    model = load_run(run, [asked, "sampler.steps=3"]).model
    return model.sampler.levels(model).log_snr


def test_a_curve_is_there_after_an_evaluation_without_it(run):
    """In the file of its own, under the old path to figures.json, and where missing."""
    figures = run / "evaluation" / "figures.json"
    kept = details_file(run / "evaluation", "curve")
    due = levels_of(run, curve=str(figures))
    assert len(due) == 4
    evaluate_run(run, (), OTHERS)
    assert "curve" not in json.loads(figures.read_text())["details"]
    for grid in ({"curve": str(figures)}, {"curve": str(kept)}, {}):
        torch.testing.assert_close(levels_of(run, **grid), due, rtol=0, atol=0)


def test_samples_and_measurements_say_which_curve_was_read(run):
    """Its path and sha256; those of a grid that is made from nothing say nothing."""
    kept = details_file(run / "evaluation", "curve")
    due = {str(kept): hashlib.sha256(kept.read_bytes()).hexdigest()}
    tightest = ("sampler.grid=tightest",)
    assert sample_run(run, tightest, count=2).used["made_from"] == due
    about = json.loads(str(np.load(run / "samples" / "samples.npz")["about"]))
    assert about["made_from"] == due
    assert evaluate_run(run, tightest, OTHERS).record["made_from"] == due
    assert "made_from" not in sample_run(run, count=2).used
    assert evaluate_run(run, (), OTHERS).record["made_from"] == {}


def test_samples_by_another_curve_are_not_gone_on_with(run, tmp_path):
    """The key of kept samples changes with what is in the file, not with its path alone."""
    model = load_run(run, ["sampler.grid=tightest"]).model
    key = Shards(tmp_path, {}).keyed(model, 4, None, 0, 4).key
    assert key == Shards(tmp_path, {}).keyed(model, 4, None, 0, 4).key
    evaluate_run(run, (), EvaluationProtocol(metrics=CURVE.metrics, seed=1))
    assert key != Shards(tmp_path, {}).keyed(model, 4, None, 0, 4).key


def test_a_run_without_a_curve_says_how_to_make_one(run):
    """Also a model that is no run's."""
    (run / "evaluation" / "figures.json").unlink()
    details_file(run / "evaluation", "curve").unlink()
    with pytest.raises(ElbowroomError, match=r"details/curve\.json: No such.*--metric"):
        sample_run(run, ("sampler.grid=tightest",), count=2)
    with pytest.raises(ElbowroomError, match=r"missing.*--metric curve"):
        Tightest().made_from()


@pytest.mark.parametrize(
    ("curve", "words"),
    [(None, "missing"), ("none.json", "cannot read none.json"), ("bad.json", "no curve")],
)
def test_explain_refuses_a_curve_that_cannot_be_had(tmp_path, monkeypatch, curve, words):
    """In one sentence, as train does; a curve that is whole passes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.json").write_text("{}")
    grid = {"name": "tightest"} if curve is None else {"name": "tightest", "curve": curve}
    ran = elbowroom("explain", "digits", f"sampler.grid={json.dumps(grid)}")
    said = [line for line in ran.err.splitlines() if line.startswith("error")]
    assert ran.code and len(said) == 1
    assert words in said[0] and "--metric curve" in said[0]


def test_explain_passes_a_curve_that_is_whole(run):
    """The grid is made from it when samples are drawn."""
    kept = details_file(run / "evaluation", "curve")
    grid = json.dumps({"name": "tightest", "curve": str(kept)})
    assert elbowroom("explain", "digits", f"sampler.grid={grid}").code == 0


def test_a_loaded_model_knows_its_runs_curve(run):
    """Also where the sampler is chosen, or changed, after loading."""
    direct = er.sample(er.load(run, ("sampler.grid=tightest", "sampler.steps=3")), 4)
    later = er.sample(er.load(run), 4, grid="tightest", steps=3)
    changed = er.sample(er.load(run, ("sampler.grid=tightest",)), 4, steps=3)
    by_name = er.sample(run, 4, grid="tightest", steps=3)
    for drawn in (later, changed, by_name):
        assert torch.equal(drawn.x, direct.x)

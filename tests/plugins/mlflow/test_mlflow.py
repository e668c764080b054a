"""MLflow: only when asked for, and what its store then has."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from elbowroom.errors import ElbowroomError
from elbowroom.plugins import mlflow as plugin
from elbowroom.plugins.mlflow.tracking import allowed, library
from elbowroom.plugins.training.observers import flatten

from tests.helpers.observing import CONFIG, observe


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A client of a store in local files."""
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed: see make test-all")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    return mlflow.MlflowClient()


def test_nothing_happens_unless_asked_for(tmp_path, monkeypatch):
    """Without a store: no file, no word, and the package is not imported."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    assert observe(plugin, tmp_path) is None
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_said(monkeypatch):
    """Asked for and not there: one sentence with the way out."""
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ElbowroomError, match=r"Install elbowroom\[mlflow\], or unset it"):
        library()


def test_names_and_values_are_what_a_store_takes():
    """Nested values by their path; signs that names may not have become underscores."""
    assert dict(flatten(CONFIG))["train.betas"] == [0.9, 0.99]
    assert allowed("validation/bits_per_dim") == "validation/bits_per_dim"
    assert allowed("λ: a@b") == "__ a_b"


@pytest.mark.extra
def test_a_run_is_in_the_store(tmp_path, store):
    """Parameters, metrics by step, a picture, the last curve; the run has the folder's name."""
    folder = tmp_path / "digits-7"
    folder.mkdir()
    assert "MLflow run" in observe(plugin, folder)
    (run,) = store.search_runs([store.get_experiment_by_name("elbowroom").experiment_id])
    assert run.info.run_name == "digits-7" and run.info.status == "FINISHED"
    assert run.data.params["process.name"] == "masked" and run.data.params["train.steps"] == "4"
    history = store.get_metric_history(run.info.run_id, "train/loss")
    assert [(one.step, one.value) for one in history] == [(1, 10.0), (2, 5.0), (3, 10 / 3)]
    assert run.data.metrics["validation/bits_per_dim"] == 2.5
    assert store.list_artifacts(run.info.run_id, "images")
    curve = store.download_artifacts(run.info.run_id, "curves/elbo_by_level.json", str(tmp_path))
    assert json.loads(Path(curve).read_text("utf-8"))["y"] == [3, 6, 9, 12, 15, 18, 21]


@pytest.mark.extra
def test_a_run_that_goes_on_is_the_same_run(tmp_path, store, monkeypatch):
    """Interrupted, then finished; its parameters are left as they were. Experiments have names."""
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    observe(plugin, tmp_path, reason="interrupted")
    (first,) = runs = store.search_runs([store.get_experiment_by_name("mine").experiment_id])
    assert first.info.status == "KILLED"
    observe(plugin, tmp_path, steps=(3, 4), start=2)
    (run,) = store.search_runs([runs[0].info.experiment_id])
    assert run.info.run_id == first.info.run_id and run.info.status == "FINISHED"
    assert run.data.tags["ended"] == "finished"

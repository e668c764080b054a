"""The schedule that a process chooses where a config names none, from config to run and back."""

from __future__ import annotations

import pytest
import torch
from elbowroom.config.assembly import build_parts, with_schedule
from elbowroom.config.explain import explain_config
from elbowroom.config.sections import dump_yaml, load_config
from elbowroom.plugins.compare.axes import Axis
from elbowroom.plugins.compare.comparison import Comparison
from elbowroom.plugins.training.run import resume, train
from elbowroom.runs.folder import RunFolder
from elbowroom.runs.load import load_run
from elbowroom.runs.run_error import RunError

from tests.helpers.tiny_run import tiny_config

ENDS = {"name": "vp-cosine", "eps": 0.001, "log_snr_max": 5.57, "log_snr_min": None}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A Gaussian run of a config that names no schedule, on data of 5 levels."""
    folder = tmp_path_factory.mktemp("natural") / "run"
    train(tiny_config("gaussian", steps=4), folder)
    return RunFolder.open(folder)


def test_a_run_writes_down_the_schedule_it_uses(run):
    """config.yaml names the schedule and its ends, though the config given named none."""
    assert run.config().schedule.given == ENDS
    top = load_run(run.path).model.schedule.log_snr(torch.zeros((), dtype=torch.float64))
    assert float(top) == pytest.approx(5.57)


def test_explain_shows_the_schedule_for_the_data():
    """What explain prints is what training uses."""
    assert explain_config(tiny_config("gaussian")).config["schedule"] == ENDS


def test_a_run_goes_on_with_a_config_that_still_names_no_schedule(run):
    """The config a run was started with resumes it; another schedule is refused."""
    resume(run.path, config=tiny_config("gaussian", steps=6))
    assert run.config().schedule.given == ENDS
    other = load_config(tiny_config("gaussian", steps=6), {"schedule": "vp-cosine"})
    with pytest.raises(RunError, match=r"schedule\.log_snr_max"):
        resume(run.path, config=other)


def test_points_of_a_comparison_have_their_schedule(tmp_path):
    """A plan names each point's schedule; where the data are missing the point itself will."""
    source = tmp_path / "config.yaml"
    source.write_text(dump_yaml(tiny_config("gaussian")), "utf-8")
    axes = (Axis("process", ("gaussian", "masked")),)
    chosen = [
        point.config.schedule for point in Comparison(str(source), tmp_path, axes=axes).points()
    ]
    assert [one.given for one in chosen] == [ENDS, {"name": "cosine", "eps": 0.0001}]
    nowhere = Comparison(
        str(source), tmp_path, (f"data={{name: image-folder, path: {tmp_path}/no}}",)
    )
    assert [point.config.schedule for point in nowhere.points()] == [None]


def test_a_named_schedule_stays_as_it_is():
    """Only a config that leaves the schedule open gets one chosen."""
    config = load_config(tiny_config("gaussian"), {"schedule": "vp-cosine"})
    parts = build_parts(config)
    assert parts.config == config == with_schedule(config, parts.spec)
    assert parts.config.schedule.given["log_snr_max"] is None

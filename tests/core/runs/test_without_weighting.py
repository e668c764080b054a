"""A run whose weighting is not installed here, and what a run says it needs."""

from __future__ import annotations

import json

import elbowroom as er
import pytest
import torch
from elbowroom.cli import app
from elbowroom.errors import ElbowroomError
from elbowroom.plugins.evaluation.run import evaluate_run
from typer.testing import CliRunner

SECTIONS = {
    "data": "digits",
    "process": "masked",
    "weighting": "simple",
    "denoiser": {"name": "dit", "width": 16, "depth": 1},
    "sampler": {"name": "ancestral", "steps": 3},
}


@pytest.fixture
def run(tmp_path):
    """A run as a package would have made it that is not here."""
    whole = er.save(er.assemble(SECTIONS), tmp_path / "run")
    text = (whole / "config.yaml").read_text()
    assert "{name: simple}" in text
    (whole / "config.yaml").write_text(text.replace("{name: simple}", "{name: theirs}"))
    record = json.loads((whole / "provenance.json").read_text())
    record["components"]["weighting"] = {"distribution": "their-plugin", "version": "2.1"}
    (whole / "provenance.json").write_text(json.dumps(record))
    return whole


def test_samples_and_bits_need_no_weighting(run):
    """What is missing is told; samples are those of the same network."""
    with pytest.warns(UserWarning, match=r"'theirs'.*\n.*\nit is not needed here"):
        drawn = er.sample(run, 3, device="cpu")
    assert torch.equal(drawn.x, er.sample(er.assemble(SECTIONS), 3).x)
    with pytest.warns(UserWarning, match="not needed"):
        report = evaluate_run(
            run, ["sampler.steps=2"], er.EvaluationProtocol(metrics=("bpd",)), device="cpu"
        )
    assert report.measurements["bits_per_dim"]["value"] > 0


def test_what_sampling_needs_is_still_asked_for(run):
    """A missing network is no small matter."""
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(text.replace("name: dit", "name: their-network"))
    with pytest.raises(ElbowroomError, match="their-network"):
        er.load(run)


def test_training_needs_its_weighting(run):
    """Another one would be another objective."""
    with pytest.raises(ElbowroomError, match=r"pip install 'their-plugin==2\.1'"):
        er.resume(run)


def test_a_run_says_what_it_needs(run):
    """As lines for pip, without anything of it being installed."""
    done = CliRunner().invoke(app, ["plugins", "--requirements", str(run)])
    assert done.exit_code == 0
    assert "their-plugin==2.1" in done.stdout.splitlines()


def test_files_of_a_run_have_one_mode(run):
    """Whoever may read its config may read its weights."""
    modes = {path.stat().st_mode for path in run.rglob("*") if path.is_file()}
    assert len(modes) == 1

"""train and sample on the command line: from a config to pictures, and back from a stop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from elbowroom.plugins.training.command import _print_result
from elbowroom.plugins.training.loop import RunResult
from PIL import Image

from tests.helpers.command import elbowroom

TINY = (
    "denoiser={name: uvit, width: 32, depth: 1, channels: 32, dropout: 0}",
    "train={steps: 4, batch_size: 8, log_every: 2, save_every: 2, evaluate_every: 4}",
    "sampler.steps=8",
)


@pytest.fixture(scope="module", params=["masked", "gaussian"])
def run(request, tmp_path_factory):
    """A finished tiny run of each process, by one word."""
    folder = tmp_path_factory.mktemp("runs") / request.param
    ran = elbowroom("train", "digits", f"process={request.param}", *TINY, "--out", folder, "--json")
    assert ran.code == 0, ran.err
    return folder, ran


def test_train_says_where_everything_went(run):
    """The JSON names the folder, the checkpoints and the last measurements."""
    folder, ran = run
    told = ran.json
    assert told["folder"] == str(folder) and told["step"] == told["steps"] == 4
    assert told["reason"] == "finished" and told["resume"] is None
    assert (folder / "config.yaml").exists() and told["latest"].startswith(str(folder))
    assert "step 4/4" in ran.err  # progress goes to stderr


def test_sample_writes_a_grid_an_array_and_an_animation(run, tmp_path):
    """--class fixes the label; PNG, npz and GIF are whole; the calls are told."""
    folder, _ = run
    ran = elbowroom("sample", folder, "--class", 3, "--count", 5, "--out", tmp_path, "--json")
    assert ran.code == 0, ran.err
    paths = ran.json["paths"]
    with Image.open(paths["grid"]) as grid, Image.open(paths["animation"]) as film:
        assert grid.size[0] >= 600 and film.n_frames > 1
    with np.load(paths["samples"], allow_pickle=False) as arrays:
        assert arrays["x"].shape == (5, 8, 8, 1) and arrays["x"].max() <= 16
        assert arrays["labels"].tolist() == [3] * 5
    assert 1 <= ran.json["calls_mean"] <= ran.json["calls_most"] <= 9


def test_sample_says_what_it_used_and_replaces_nothing_unasked(run, tmp_path):
    """Run, step, average, sampler, steps and seed in a line; a second call needs --overwrite."""
    folder, _ = run
    words = ("sample", folder, "sampler.steps=2", "--count", 2, "--out", tmp_path)
    first = elbowroom(*words, "--seed", 5)
    assert first.code == 0, first.err
    used = f"used       {folder}, step 4, EMA of 0.9999, ancestral in 2 steps, seed 5"
    assert used in first.out.replace("\n", "") and "attention uses" not in first.err
    before = (tmp_path / "samples.npz").read_bytes()
    again = elbowroom(*words)
    assert again.code == 2 and "Use --overwrite to replace it" in " ".join(again.err.split())
    assert (tmp_path / "samples.npz").read_bytes() == before
    replaced = elbowroom(*words, "--overwrite", "--json")
    assert replaced.code == 0 and (tmp_path / "samples.npz").read_bytes() != before
    assert replaced.json["used"]["seed"] == 0 and replaced.json["used"]["sampler"] == "ancestral"


def test_a_seed_gives_the_same_samples_whatever_the_batch_size(run, tmp_path):
    """Drawing 6 at once or 4 and 2 gives the same integers; another seed gives others."""
    folder, _ = run
    drawn = []
    for number, extra in enumerate((["--batch-size", 6], ["--batch-size", 4], ["--seed", 1])):
        out = tmp_path / str(number)
        assert elbowroom("sample", folder, "--count", 6, *extra, "--out", out).code == 0
        with np.load(out / "samples.npz") as arrays:
            drawn.append(arrays["x"])
    assert (drawn[0] == drawn[1]).mean() > 0.99  # up to the network's own rounding
    assert (drawn[0] != drawn[2]).any()


def test_an_override_changes_the_sampler_without_retraining(run, tmp_path):
    """sampler.steps=2 draws in two steps."""
    folder, _ = run
    ran = elbowroom("sample", folder, "sampler.steps=2", "--count", 2, "--out", tmp_path, "--json")
    assert ran.json["calls_most"] <= 3


def test_resume_goes_on_and_refuses_another_config(run):
    """A run may be lengthened; anything else that differs is named."""
    folder, _ = run
    ran = elbowroom("train", "--resume", folder, "train.steps=6", "--json")
    assert ran.code == 0 and ran.json["step"] == 6
    finished = elbowroom("train", "--resume", folder)
    assert finished.code == 0
    told = " ".join(finished.out.split())
    assert f"To train longer: elbowroom train --resume {folder} train.steps=12" in told
    refused = elbowroom("train", "--resume", folder, "train.batch_size=16")
    assert refused.code == 2 and "train.batch_size" in refused.err


def test_an_interrupted_run_is_to_be_resumed_not_lengthened(capsys):
    """Also where it was interrupted before its first line of the log."""
    _print_result(RunResult(Path("r"), 1, 6, "interrupted", Path("c"), None, {}, 0.0), json=False)
    told = capsys.readouterr().out
    assert "stopped at step 1 of 6" in told and "To train longer" not in told


BAD = [
    (["train"], "CONFIG"),
    (["train", "digits", "--out", "x", "--resume", "y"], "excludes"),
    (["train", "--auto-resume", "--resume", "y"], "excludes"),
    (["train", "digits", "--auto-resume"], "needs --out RUN"),
    (["train", "digits", "--resume", "nowhere"], "digits"),
    (["train", "--resume", "nowhere"], "nowhere"),
    (["train", "digits", "sampler=ddim", "--out", "x"], "cannot serve process 'masked'"),
    (["train", "digits", "denoiser=null", "--out", "x"], "denoiser"),
    (["train", "digits", "--out", "/proc/x"], "/proc/x"),
    (["train", "digits", "--device", "abacus", "--out", "x"], "abacus"),
    (["sample", "nowhere"], "nowhere"),
    (["sample"], "RUN"),
]


@pytest.mark.parametrize(("call", "says"), BAD, ids=lambda value: str(value)[:60])
def test_wrong_calls_are_answered_before_anything_is_written(call, says, tmp_path, monkeypatch):
    """One message, exit code 2, and no folder is left behind."""
    monkeypatch.chdir(tmp_path)
    ran = elbowroom(*call)
    assert ran.code == 2, ran
    assert says in " ".join(ran.err.split()) and "Traceback" not in ran.err
    assert list(tmp_path.iterdir()) == []


def test_wrong_labels_and_checkpoints_are_told(run, tmp_path):
    """A class or checkpoint there is not is an error that lists the choices."""
    folder, _ = run
    ran = elbowroom("sample", folder, "--class", 12, "--out", tmp_path)
    assert ran.code == 2 and "0 to 9" in ran.err
    ran = elbowroom("sample", folder, "--checkpoint", "7", "--out", tmp_path)
    assert ran.code == 2 and "best, last" in " ".join(ran.err.split())


def test_sampling_needs_no_data_on_this_machine(run, tmp_path, monkeypatch):
    """A run knows the form of its data: samples are drawn where the data is not."""
    from elbowroom.plugins.datasets.digits import Digits

    def gone(*_):
        raise FileNotFoundError("no data here")

    monkeypatch.setattr(Digits, "spec", property(gone))
    folder, _ = run
    assert elbowroom("sample", folder, "--count", 2, "--out", tmp_path).code == 0


def test_a_folder_with_a_run_is_never_overwritten(run):
    """Training into it again says how to go on instead."""
    folder, _ = run
    ran = elbowroom("train", "digits", *TINY, "--out", folder)
    assert ran.code == 2 and "--resume" in ran.err

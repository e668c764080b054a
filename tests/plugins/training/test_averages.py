"""Several averages of the weights in one run."""

from __future__ import annotations

import shutil

import pytest
import torch
from elbowroom.errors import ConfigError, ElbowroomError
from elbowroom.plugins.training.run import train
from elbowroom.runs.load import load_run

from tests.helpers.command import elbowroom
from tests.helpers.tiny_run import found, tiny_config

QUIET = {"console", "tensorboard"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that keeps three averages."""
    folder = tmp_path_factory.mktemp("averages") / "run"
    train(tiny_config(ema=0.9, ema_also=[0.5, 0.7]), folder, without=QUIET)
    return folder


def test_each_average_is_that_of_a_run_with_no_other(run, tmp_path):
    """Bit by bit; and the weights know nothing of how they are averaged."""
    kept = found(run)[-1]
    for decay in (0.5, 0.7):
        train(tiny_config(ema=decay), tmp_path / str(decay), without=QUIET)
        alone = found(tmp_path / str(decay))[-1]
        for part, other in (("model", "model"), (f"ema-{decay}", "ema")):
            here, there = kept.read(part), alone.read(other)
            assert here.keys() == there.keys()
            assert all(torch.equal(here[name], there[name]) for name in here)
        assert "ema-0.5.safetensors" not in alone.state.files


def test_an_override_chooses_the_average(run):
    """Nothing said: the run's own; a decay that was not kept is refused with those that were."""
    for overrides, part in (
        ((), "ema"),
        (["train.ema=0.9"], "ema"),
        (["train.ema=0.5"], "ema-0.5"),
    ):
        loaded = load_run(run, overrides, "last")
        weights = found(run)[-1].read(part)
        for name, p in loaded.model.named_parameters():
            assert torch.equal(p, weights[name])
    with pytest.raises(ConfigError, match=r"train\.ema=0\.8: .* choose of 0\.9, 0\.5, 0\.7"):
        load_run(run, ["train.ema=0.8"])


def test_a_damaged_average_is_noticed_where_it_is_asked_for(run, tmp_path):
    """Checkpoints whose other parts are whole still serve these."""
    shutil.copytree(run, tmp_path / "copy")
    for checkpoint in found(tmp_path / "copy"):
        file = checkpoint.path / "ema-0.5.safetensors"
        file.write_bytes(file.read_bytes()[:-1] + b"x")
    load_run(tmp_path / "copy", ["train.ema=0.7"])
    with (
        pytest.warns(UserWarning, match="ema-0.5"),
        pytest.raises(ElbowroomError, match="is damaged"),
    ):
        load_run(tmp_path / "copy", ["train.ema=0.5"])


def test_the_commands_take_an_average(run, tmp_path):
    """One of sample, several of evaluate; every measurement says of which it is."""
    sampled = elbowroom("sample", run, "--ema", "0.5", "--count", "2", "--out", tmp_path / "s")
    assert sampled.code == 0, sampled.err
    words = ["--metric", "bpd", "--samples", "4", "--out", tmp_path / "e", "--json"]
    said = elbowroom("evaluate", run, "--ema", "0.5,0.9", *words)
    assert said.code == 0, said.err
    records = said.json
    weights = [next(iter(r["figures"].values()))["of"]["weights"] for r in records]
    assert [w.split(" at ")[0] for w in weights] == ["EMA of 0.5", "EMA of 0.9"]
    assert (tmp_path / "e/ema-0.5/figures.json").is_file()
    for asked in ("0.5,much", "0.5,0.77"):
        words[-2] = tmp_path / "none"
        wrong = elbowroom("evaluate", run, "--ema", asked, *words)
        assert wrong.code == 2
        assert "train.ema" in wrong.err
        assert not (tmp_path / "none").exists()  # said before the first is evaluated

"""Checkpoints: whole or not there, and never code."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys

import pytest
import torch
from elbowroom.files.digest import file_digest, sealed
from elbowroom.plugins.training.disk_space import check_free_space
from elbowroom.plugins.training.run import resume, train
from elbowroom.runs.checkpoint import (
    CheckpointError,
    best,
    checkpoints,
    clean,
    load_weights,
    named_tensors,
    prune,
    restore,
    write_checkpoint,
)
from elbowroom.runs.state import State, StateError
from torch import nn

from tests.helpers.tiny_run import found, same, tiny_config

QUIET = {"console", "tensorboard"}


def _write(folder, step, bits=None):
    validation = {} if bits is None else {"validation/bits_per_dim": bits}
    tensors = {"weight": torch.full((3,), float(step))}
    return write_checkpoint(folder, {"model": tensors}, State(step=step, validation=validation))


def test_what_is_written_is_read_back(tmp_path):
    """Tensors bit by bit, whatever their type; state as plain data."""
    tensors = {
        "a": torch.randn(2, 3),
        "b": torch.arange(4),
        "c": torch.tensor(7.0),
        "d": torch.randn(3, 2).t(),
    }
    path = write_checkpoint(tmp_path, {"model": tensors}, State(step=12, config={"seed": 1}))
    (checkpoint,) = checkpoints(tmp_path)
    assert checkpoint.path == path
    assert checkpoint.step == 12
    assert checkpoint.state.config == {"seed": 1}
    read = checkpoint.read("model")
    assert all(torch.equal(read[name], tensors[name]) for name in tensors)


def test_the_last_and_the_best_are_kept(tmp_path):
    """The best by validation bits/dim, never evaluated ones only while they are recent."""
    for step, bits in [(1, 3.0), (2, 1.0), (3, None), (4, 2.0), (5, None)]:
        _write(tmp_path, step, bits)
    assert best(checkpoints(tmp_path)).step == 2
    prune(tmp_path, 2)
    assert [c.step for c in checkpoints(tmp_path)] == [2, 4, 5]
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "step-000000002",
        "step-000000004",
        "step-000000005",
    ]


def test_milestones_are_never_pruned(tmp_path):
    """However old they are; and the last ones stay beside them."""
    for step in range(1, 7):
        _write(tmp_path, step)
    prune(tmp_path, 1, milestones=(2, 4, 9))
    assert [c.step for c in checkpoints(tmp_path)] == [2, 4, 6]


@pytest.mark.parametrize("damage", ["truncated", "file gone", "no state", "half a state", "newer"])
def test_a_checkpoint_that_is_not_whole_is_left_aside(tmp_path, damage):
    """The one before it is used, and a warning says why."""
    _write(tmp_path, 1)
    broken = _write(tmp_path, 2)
    file, state = broken / "model.safetensors", broken / "state.json"
    if damage == "truncated":
        file.write_bytes(file.read_bytes()[:-1])
    elif damage == "file gone":
        file.unlink()
    elif damage == "no state":
        state.unlink()
    elif damage == "half a state":
        state.write_text(state.read_text()[:20])
    else:
        state.write_text(json.dumps(json.loads(state.read_text()) | {"format": 99}))
    with pytest.warns(UserWarning, match="step-000000002 is left aside"):
        assert [c.step for c in checkpoints(tmp_path)] == [1]


def test_a_half_written_folder_is_no_checkpoint_and_is_cleaned_away(tmp_path):
    """What a killed process leaves has another name."""
    _write(tmp_path, 1)
    shutil.copytree(tmp_path / "step-000000001", tmp_path / ".step-000000002.partial-77")
    assert [c.step for c in checkpoints(tmp_path)] == [1]
    clean(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["step-000000001"]


def test_a_state_file_cannot_point_outside_its_folder(tmp_path):
    """Names in it are names of files beside it."""
    path = _write(tmp_path, 1)
    state = json.loads((path / "state.json").read_text())
    outside = {"files": {"../../etc/passwd": 1}, "sha256": {"../../etc/passwd": ""}}
    (path / "state.json").write_text(json.dumps(sealed(state | outside)))
    with pytest.warns(UserWarning, match="outside itself"):
        assert checkpoints(tmp_path) == []


class _Trap:
    """Unpickling it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_a_malicious_pickle_in_a_run_folder_is_refused_or_ignored(tmp_path):
    """In the place of tensors it is refused; anywhere else it is not even opened."""
    run, mark = tmp_path / "run", tmp_path / "executed"
    train(tiny_config(steps=2), run, without=QUIET)
    trap = pickle.dumps(_Trap(mark))
    for stray in ("model.pt", "optimizer.pkl", "checkpoints/step-000000099", "config.pkl"):
        (run / stray).write_bytes(trap)
    (run / "checkpoints/.metadata").write_bytes(trap)
    (found(run)[-1].path / "model.pkl").write_bytes(trap)
    assert resume(run, without=QUIET).step == 2
    path = found(run)[-1].path
    file = path / "model.safetensors"
    file.write_bytes(trap)
    state = json.loads((path / "state.json").read_text())
    state["files"][file.name], state["sha256"][file.name] = len(trap), file_digest(file)
    (path / "state.json").write_text(json.dumps(sealed(state)))
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        resume(run, ["train.steps=4"], without=QUIET)
    assert not mark.exists()
    pickle.loads(trap).close()  # the trap is real
    assert mark.exists()


def test_a_checkpoint_that_does_not_fit_says_where(tmp_path):
    """By name, and by shape."""
    model = nn.Linear(2, 3)
    with pytest.raises(CheckpointError, match=r"it lacks bias and has nothing"):
        restore(named_tensors(model), {"weight": torch.zeros(3, 2)}, "x")
    with pytest.raises(CheckpointError, match=r"weight is \(2, 2\) there and \(3, 2\) here"):
        restore(named_tensors(model), {"weight": torch.zeros(2, 2), "bias": torch.zeros(3)}, "x")


def test_a_tied_parameter_is_saved_once_and_stays_tied(tmp_path):
    """Shared memory is no obstacle."""

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2, bias=False)
            self.b = self.a
            self.register_buffer("table", torch.arange(3.0))
            self.register_buffer("scratch", torch.zeros(3), persistent=False)

    model, other = Tied(), Tied()
    tensors = named_tensors(model)
    assert sorted(tensors) == ["a.weight", "table"]
    write_checkpoint(tmp_path, {"ema": tensors}, State(step=1))
    load_weights(other, checkpoints(tmp_path)[0])
    assert torch.equal(other.b.weight, model.a.weight)
    assert other.a.weight is other.b.weight


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    """A full disk: one clear sentence, no half-written folder, the old checkpoint whole."""
    _write(tmp_path, 1)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("elbowroom.runs.checkpoint.save_file", full)
    with pytest.raises(CheckpointError, match=r"no room .*step-000000002.*free some space"):
        _write(tmp_path, 2)
    assert [p.name for p in tmp_path.iterdir()] == ["step-000000001"]


def test_room_is_asked_for_and_given_back(tmp_path):
    """The probe leaves nothing behind; an impossible size is refused."""
    check_free_space(tmp_path, 1 << 20)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(CheckpointError, match="no room"):
        check_free_space(tmp_path, 1 << 60)
    assert list(tmp_path.iterdir()) == []


KILLED_IN_THE_PROBE = """
import os, pathlib, signal, sys
from elbowroom.plugins.training.disk_space import check_free_space
os.posix_fallocate = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
check_free_space(pathlib.Path(sys.argv[1]), 1 << 20)
"""


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system cannot ask for space")
def test_a_process_killed_while_it_asks_for_room_leaves_no_probe(tmp_path):
    """The space goes with the process; a probe left all the same goes at the next start."""
    killed = subprocess.run([sys.executable, "-c", KILLED_IN_THE_PROBE, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".room-77").write_bytes(b"left behind")
    clean(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_rewriting_a_step_changes_nothing(tmp_path):
    """A run replays exactly, so the first checkpoint of a step stands."""
    first = _write(tmp_path, 1)
    (before,) = checkpoints(tmp_path)
    assert _write(tmp_path, 1) == first
    assert torch.equal(
        checkpoints(tmp_path)[0].read("model")["weight"], before.read("model")["weight"]
    )


def test_a_copied_run_goes_on_elsewhere(tmp_path):
    """Nothing in a run folder depends on where it is."""
    train(tiny_config(steps=6), tmp_path / "a", without=QUIET)
    train(tiny_config(steps=6, save_every=3), tmp_path / "b", without=QUIET)
    shutil.rmtree(tmp_path / "b/checkpoints/step-000000006")
    shutil.move(tmp_path / "b", tmp_path / "elsewhere")
    resume(tmp_path / "elsewhere", without=QUIET)
    assert same(found(tmp_path / "a")[-1], found(tmp_path / "elsewhere")[-1])


# -- the state file


def test_the_state_file_has_the_keys_it_always_had(tmp_path):
    """In the order of the first checkpoints; what is not known is left out, not null."""
    state = State(step=3, data={"shape": [2]}, config={}, validation={}, seconds=1.5)
    path = write_checkpoint(tmp_path, {"model": {"a": torch.zeros(2)}}, state)
    keys = ["format", "data", "config", "validation", "seconds", "step", "files", "sha256", "seal"]
    assert list(json.loads((path / "state.json").read_text())) == keys
    assert State.read(path) == checkpoints(tmp_path)[0].state


WRONG = {
    "step": -1,
    "files": {"model.safetensors": "8"},
    "sha256": {"model.safetensors": 5},
    "validation": {"validation/bits_per_dim": "low"},
    "seconds": True,
    "config": [],
    "log": "long",
}


@pytest.mark.parametrize("key", WRONG)
def test_a_state_with_an_impossible_value_is_refused_by_its_key(tmp_path, key):
    path = _write(tmp_path, 1, 2.0)
    record = json.loads((path / "state.json").read_text())
    (path / "state.json").write_text(json.dumps(sealed(record | {key: WRONG[key]})))
    with pytest.raises(StateError, match=f"has a {key} that cannot be one"):
        State.read(path)


@pytest.mark.parametrize("key", ["step", "files"])
def test_a_state_must_have_a_step_and_its_files(tmp_path, key):
    path = _write(tmp_path, 1)
    record = json.loads((path / "state.json").read_text())
    del record[key]
    (path / "state.json").write_text(json.dumps(sealed(record)))
    with pytest.raises(StateError, match=f"has a {key} that cannot be one"):
        State.read(path)

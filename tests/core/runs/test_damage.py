"""Damaged, lost and foreign checkpoints: noticed, told, and never written over."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from elbowroom.errors import ElbowroomError
from elbowroom.files.digest import is_sealed, sealed
from elbowroom.plugins.export.export import export_run
from elbowroom.plugins.export.exporter import Exporter
from elbowroom.plugins.training.run import resume, train
from elbowroom.runs.checkpoint import CheckpointError, checkpoints, find_checkpoints
from elbowroom.runs.folder import RunFolder
from elbowroom.runs.load import load_run
from elbowroom.runs.run_error import RunError
from hypothesis import given, settings, strategies as st
from safetensors import SafetensorError

from tests.helpers.command import elbowroom
from tests.helpers.tiny_run import curve, found, same, tiny_config

QUIET = {"console", "tensorboard"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of 12 steps that was never harmed."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    train(tiny_config(steps=12, keep=3), folder, without=QUIET)
    return folder


@pytest.fixture
def run(whole, tmp_path):
    """The same run stopped at step 8, with checkpoints of steps 4 and 8, to be harmed."""
    shutil.copytree(whole, tmp_path / "run")
    shutil.rmtree(tmp_path / "run/checkpoints/step-000000012")
    return tmp_path / "run"


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != ".lock"}


def flip(file: Path, at: float, bit: int = 3) -> None:
    """Turn one bit at a share of the file's length."""
    data = bytearray(file.read_bytes())
    data[int(at * (len(data) - 1))] ^= 1 << bit
    file.write_bytes(data)


def zero(file: Path) -> None:
    data = bytearray(file.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 512] = bytes(len(data[middle : middle + 512]))
    file.write_bytes(data)


DAMAGE = {
    "a bit of the model": lambda c: flip(c / "model.safetensors", 0.9),
    "a bit of the average": lambda c: flip(c / "ema.safetensors", 0.7),
    "a bit of a moment": lambda c: flip(c / "optimiser.safetensors", 0.8),
    "a bit of the sums": lambda c: flip(c / "window.safetensors", 0.99),
    "a header": lambda c: flip(c / "model.safetensors", 0.01),
    "a page of zeros": lambda c: zero(c / "optimiser.safetensors"),
    "files changed places": lambda c: shutil.copyfile(
        c / "model.safetensors", c / "ema.safetensors"
    ),
    "another step's file": lambda c: shutil.copyfile(
        c.with_name("step-000000004") / "optimiser.safetensors", c / "optimiser.safetensors"
    ),
    "a digit of the state": lambda c: (c / "state.json").write_text(
        (c / "state.json").read_text().replace('"seconds": 0', '"seconds": 1')
    ),
    "the step": lambda c: (c / "state.json").write_text(
        json.dumps(sealed(json.loads((c / "state.json").read_text()) | {"step": 7}))
    ),
    "a folder for a file": lambda c: (
        (c / "ema.safetensors").unlink(),
        (c / "ema.safetensors").mkdir(),
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_noticed_and_the_one_before_it_used(whole, run, damage):
    """With a warning; and the run ends with the very weights and curve of one never harmed."""
    DAMAGE[damage](run / "checkpoints/step-000000008")
    with pytest.warns(UserWarning, match="step-000000008 is left aside"):
        result = resume(run, without=QUIET)
    assert result.step == 12
    assert same(found(run)[-1], found(whole)[-1])
    assert curve(RunFolder(run).rows()) == curve(RunFolder(whole).rows())
    assert all(one.damage() == "" for one in found(run))
    assert [one.step for one in found(run)] == [4, 8, 12]  # its replay took its place


@pytest.mark.parametrize("choice", ["last", "best"])
def test_samples_are_drawn_from_the_last_good_checkpoint(run, choice):
    """With a warning; one that was named by its step is refused instead."""
    flip(run / "checkpoints/step-000000008/ema.safetensors", 0.5)
    with pytest.warns(UserWarning, match=r"step-000000008 is left aside: ema.safetensors is not"):
        assert load_run(run, checkpoint=choice).checkpoint.step == 4
    with pytest.raises(CheckpointError, match=r"step-000000008 is damaged: ema.safetensors is not"):
        load_run(run, checkpoint=8)


UNUSABLE = {
    "newer": lambda s: json.dumps(json.loads(s) | {"format": 99}),
    "older": lambda s: json.dumps(json.loads(s) | {"format": 1}),
    "cut short": lambda s: s[: len(s) // 2],
    "no mapping": lambda s: "[]",
    "nested": lambda s: "[" * 100_000,
    "empty": lambda s: "",
}


@pytest.mark.parametrize("harm", UNUSABLE)
def test_a_run_whose_checkpoints_cannot_be_read_is_refused_untouched(run, harm):
    """Exit code 2, the reason of each, and not a byte changed."""
    for path in (run / "checkpoints").iterdir():
        file = path / "state.json"
        file.write_text(UNUSABLE[harm](file.read_text()))
    before = tree(run)
    ended = elbowroom("train", "--resume", run, "train.log_every=1", "--without", "console")
    assert ended.code == 2
    assert "step-000000004" in ended.err
    assert "step-000000008" in ended.err
    assert ("the elbowroom version" if harm in ("newer", "older") else "--restart") in ended.err
    assert tree(run) == before


def test_one_checkpoint_of_a_newer_elbowroom_is_enough_to_refuse(run):
    """Going on from an older one would in the end write over it."""
    file = run / "checkpoints/step-000000008/state.json"
    file.write_text(UNUSABLE["newer"](file.read_text()))
    before = tree(run)
    with pytest.raises(
        RunError, match="step-000000008: it has format 99, and this elbowroom reads"
    ):
        resume(run, without=QUIET)
    assert tree(run) == before


def test_a_run_that_lost_its_checkpoints_begins_again_only_when_told_to(whole, run):
    """``--restart``; what was there is kept beside."""
    shutil.rmtree(run / "checkpoints")
    before = tree(run)
    with pytest.raises(RunError, match=r"all are gone[\s\S]*--restart"):
        resume(run, without=QUIET)
    assert tree(run) == before
    assert resume(run, restart=True, without=QUIET).step == 12
    assert same(found(run)[-1], found(whole)[-1])


def test_a_restart_keeps_what_cannot_be_read_and_refuses_what_can(whole, run):
    """Nothing of a stranger's or of a later version is deleted."""
    with pytest.raises(RunError, match="has a good checkpoint, of step 8"):
        resume(run, restart=True, without=QUIET)
    for path in (run / "checkpoints").iterdir():
        (path / "state.json").write_text("{}")
    assert resume(run, restart=True, without=QUIET).step == 12
    assert same(found(run)[-1], found(whole)[-1])
    assert len(find_checkpoints(run / "checkpoints-left-1")[1]) == 2


def test_a_run_killed_before_its_first_checkpoint_begins_again_by_itself(tmp_path):
    """Nothing was saved, so nothing is lost: it says so and goes on."""
    folder = RunFolder.create(tmp_path / "run", tiny_config(steps=4))
    folder.append({"step": 3, "loss": 1.0})
    with pytest.warns(UserWarning, match="stopped at step 3, before its first checkpoint"):
        assert resume(tmp_path / "run", without=QUIET).step == 4


def test_a_line_of_the_log_is_not_dropped_without_a_word(run):
    """The last may be cut short by a kill: a warning. Any other would be lost: a refusal."""
    log = run / "log.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines) + b'{"step": 9, "lo')
    with pytest.warns(UserWarning, match=f"line {len(lines) + 1} is left out"):
        assert len(RunFolder(run).rows()) == len(lines)
    for broken in (b"{]\n", b"\xff\n", b"[1]\n", b'{"step": "3"}\n', b"[" * 100_000 + b"\n"):
        log.write_bytes(lines[0] + broken + b"".join(lines[1:]))
        before = tree(run)
        with pytest.raises(RunError, match=r"log.jsonl, line 2 cannot be read"):
            resume(run, ["train.log_every=2"], without=QUIET)
        assert tree(run) == before


@pytest.mark.parametrize("harm", ["emptied", "deleted", "a line gone", "a digit"])
def test_a_log_that_is_not_what_was_written_is_told_of(whole, run, harm):
    """No weight depends on it: the run goes on, with a warning."""
    log = run / "log.jsonl"
    text = log.read_text()
    if harm == "deleted":
        log.unlink()
    else:
        lines = text.splitlines(keepends=True)
        digit = text.replace('"loss": 1', '"loss": 3', 1).replace('"loss": 2', '"loss": 3', 1)
        left = {"emptied": "", "a line gone": "".join(lines[1:]), "a digit": digit}[harm]
        assert left != text
        log.write_text(left)
    with pytest.warns(UserWarning, match=r"log.jsonl is not what was written"):
        resume(run, without=QUIET)
    assert same(found(run)[-1], found(whole)[-1])


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(max_examples=40)
@given(st.dictionaries(st.text(), plain, max_size=4), st.text(), plain)
def test_a_seal_survives_writing_and_breaks_with_any_change(record, key, value):
    """Whatever the record; a value that is another when written is another record."""
    made = json.loads(json.dumps(sealed(record)))
    assert is_sealed(made)
    changed = {**made, key: value}
    if key != "seal":
        assert is_sealed(changed) == (
            json.dumps(changed.get(key)) == json.dumps(made.get(key, _ABSENT))
        )


_ABSENT = "\0absent"


def test_data_of_another_form_are_refused_before_any_metric_sees_them(run):
    """What a changed config requests is refused in one sentence."""
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("size: 4", "size: null"))
    ended = elbowroom("evaluate", run, "--metric", "bpd", "--samples", 4)
    assert ended.code == 2
    assert "examples have the shape (8, 8, 1)" in " ".join(ended.err.split())


class Full(Exporter):
    """Writes until the disk is full, which safetensors tells in its own words."""

    def write(self, run, config, folder):
        (folder / "half").write_text("")
        raise SafetensorError("I/O error: No space left on device (os error 28)")


def test_an_export_to_a_full_disk_is_a_sentence_and_leaves_nothing(run, tmp_path):
    """Whoever's error it is."""
    out = tmp_path / "exports" / "one"
    with pytest.raises(ElbowroomError, match=r"cannot write .*one: .*No space left"):
        export_run(run, f"{__name__}:Full", out)
    assert list(out.parent.iterdir()) == []


def test_checkpoints_of_a_folder_that_is_none_are_none(tmp_path):
    """Nothing to find, nothing to say."""
    assert checkpoints(tmp_path / "nowhere") == []

"""Weights & Biases: only when asked for, and what it then keeps offline."""

from __future__ import annotations

import json
import struct
import sys
import time

import pytest
import torch
from elbowroom.errors import ElbowroomError
from elbowroom.plugins import wandb as plugin
from elbowroom.plugins.wandb.tracking import histogram, library

from tests.helpers.observing import observe


@pytest.fixture
def offline(monkeypatch):
    """The package, which sends nothing."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_PROJECT", "tests")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    return pytest.importorskip("wandb", reason="wandb is not installed: see make test-all")


@pytest.mark.parametrize("mode", [None, "disabled"])
def test_nothing_happens_unless_asked_for(tmp_path, monkeypatch, mode):
    """Without a project, or disabled: no folder, no word, and the package is not imported."""
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    if mode:
        monkeypatch.setenv("WANDB_PROJECT", "tests")
        monkeypatch.setenv("WANDB_MODE", mode)
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert observe(plugin, tmp_path) is None
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_said(monkeypatch):
    """Asked for and not there: one sentence with the way out."""
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ElbowroomError, match=r"Install elbowroom\[wandb\], or unset it"):
        library()


def test_a_histogram_has_an_edge_more_than_heights():
    """Bins lie around the levels; what is not finite or negative has no height."""
    x = torch.tensor([0.0, 1.0, 2.0, 3.0])
    heights, edges = histogram(x, torch.tensor([1.0, -1.0, float("inf"), float("nan")]))
    assert heights == [1.0, 0.0, 0.0, 0.0] and edges == [-0.5, 0.5, 1.5, 2.5, 3.5]


@pytest.mark.extra
def test_a_run_is_kept_offline(tmp_path, offline):
    """Config, scalars by the training step, histogram and picture; named as the folder."""
    folder = tmp_path / "digits-7"
    folder.mkdir()
    said = observe(plugin, folder)
    rows, run = stored(folder)
    assert run["display_name"] == "digits-7" and run["project"] == "tests"
    assert json.loads(run["config"]["train"])["betas"] == [0.9, 0.99]
    assert [(r["step"], r["train/loss"]) for r in rows[:3]] == [(1, 10.0), (2, 5.0), (3, 10 / 3)]
    assert rows[0]["level/elbo_by_level/values"] == [1, 2, 3, 4, 5, 6, 7]
    assert rows[3]["validation/bits_per_dim"] == 2.5
    assert (rows[3]["samples/height"], rows[3]["samples/width"]) == (5, 6)
    assert "wandb sync" in said and str(folder) in said


@pytest.mark.extra
def test_a_run_that_goes_on_is_the_same_run(tmp_path, offline):
    """Its identity is kept with it; steps that are logged again go to it."""
    observe(plugin, tmp_path, reason="interrupted")
    first = (tmp_path / "wandb" / "run-id").read_text()
    observe(plugin, tmp_path, steps=(3, 4), start=2)
    assert (tmp_path / "wandb" / "run-id").read_text() == first
    kept = [path.name for path in (tmp_path / "wandb").glob("offline-run-*")]
    assert kept and all(first.strip() in name for name in kept)  # two in one second: name, name-1


def stored(folder):
    """The history and the run of an offline file."""
    rows, run = [], {}
    (path,) = (folder / "wandb").glob("offline-run-*/*.wandb")
    for record in whole(path):
        if record.WhichOneof("record_type") == "run":
            config = {item.key: item.value_json for item in record.run.config.update}
            run = {"display_name": record.run.display_name, "project": record.run.project}
            run["config"] = config
        if record.WhichOneof("record_type") == "history":
            items = record.history.item
            rows.append({i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in items})
    return rows, run


def whole(path):
    """The records of a file up to the run's end, which the package writes when it finds time."""
    from wandb.proto import wandb_internal_pb2

    for _ in range(600):
        found = [wandb_internal_pb2.Record.FromString(data) for data in records(path.read_bytes())]
        if any(record.WhichOneof("record_type") == "exit" for record in found):
            return found
        time.sleep(0.1)
    raise AssertionError(f"{path} was never finished")


def records(content, block=32768):
    """A log of LevelDB: in blocks, pieces of (checksum, length, whole|first|middle|last, data)."""
    at, parts = 7, []  # behind the file's own header
    while at + 7 <= len(content):
        if block - at % block < 7:
            at += block - at % block
            continue
        length, kind = struct.unpack("<HB", content[at + 4 : at + 7])
        parts.append(content[at + 7 : at + 7 + length])
        at += 7 + length
        if kind in (1, 4):
            yield b"".join(parts)
            parts = []

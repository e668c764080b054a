"""Folders of runs with names that shells and formats stumble over."""

from __future__ import annotations

import os

import pytest
from elbowroom.config.sections import dump_yaml

from tests.helpers.command import elbowroom
from tests.helpers.tiny_run import found, tiny_config

QUIET = ("--without", "console", "--without", "tensorboard")


@pytest.mark.parametrize(
    "name",
    ["two  words", "größe-模型", "line\nbreak", "[bold]'\"{a: b}$(x)", os.fsdecode(b"\xff\xfe")],
)
def test_a_run_may_be_called_anything_and_reached_by_a_link(tmp_path, name):
    """Begun, gone on with through a symbolic link, sampled, and refused a second time."""
    config = tmp_path / "tiny.yaml"
    config.write_text(dump_yaml(tiny_config(steps=2)), "utf-8")
    run, link = tmp_path / name / name, tmp_path / "link"
    assert elbowroom("train", config, "--out", run, *QUIET).code == 0
    link.symlink_to(run)
    longer = elbowroom("train", "--resume", link, "train.steps=3", *QUIET, "--json")
    assert longer.code == 0 and longer.json["step"] == 3
    assert found(run)[-1].step == 3
    assert elbowroom("sample", link, "--count", 2).code == 0
    refused = elbowroom("train", config, "--out", run, *QUIET)
    assert refused.code == 2
    assert "has a run already, at step 3" in refused.err

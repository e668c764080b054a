"""Killed at any moment, in real processes: nothing is lost and nothing is changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from elbowroom.runs.folder import RunFolder

from tests.helpers.tiny_run import curve, found, same

ROOT = Path(__file__).parents[3]
HELPERS = ROOT / "tests" / "helpers"


def scenario(name, folder, *arguments):
    done = subprocess.run(
        [sys.executable, str(HELPERS / "run_and_kill.py"), name, str(folder), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def same_run(one, other):
    assert same(found(one)[-1], found(other)[-1])
    assert curve(RunFolder(one).rows()) == curve(RunFolder(other).rows())
    assert list((other / "checkpoints").glob(".*")) == []


def test_kill_9_at_random_moments_changes_nothing(tmp_path):
    """Killed several times and resumed: weights, moments and curve of the unkilled run, bitwise."""
    assert scenario("random", tmp_path, 5)["killed"] == 5
    same_run(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.slow
def test_many_kills(tmp_path):
    """The same with more of them."""
    assert scenario("random", tmp_path, 30)["killed"] == 30
    same_run(tmp_path / "whole", tmp_path / "killed")


def test_a_kill_between_any_two_writes_of_a_save_changes_nothing(tmp_path):
    """Half a file, no state, not yet renamed, half pruned: never picked up."""
    assert scenario("saving", tmp_path)["killed"] >= 12
    runs = [path for path in tmp_path.iterdir() if path.name != "whole"]
    assert len(runs) == 20
    for run in runs:
        same_run(tmp_path / "whole", run)


def test_signals_have_their_own_exit_codes(tmp_path):
    """Asked to stop: saved, 75. Asked twice from the keyboard: at once, 130."""
    assert scenario("signals", tmp_path) == {"term": 75, "int": 75, "hup": 75, "twice": 130}
    for name in ("term", "int", "hup"):
        assert found(tmp_path / name)[-1].step > 0
    assert found(tmp_path / "twice") == []


def test_a_folder_that_goes_while_it_is_trained_in_is_one_sentence(tmp_path):
    """Deleted, or another thing in its place: exit code 2. Under nohup a SIGHUP is nothing."""
    told = scenario("losses", tmp_path)
    assert told["codes"] == {"deleted": 2, "a file": 2, "nohup": 0}
    for error in told["errors"]:
        assert error.startswith("cannot write to")
        assert "\n" not in error
    assert not (tmp_path / "deleted").exists()


def test_a_full_disk_is_one_clear_error_and_nothing_saved_is_lost(tmp_path):
    """Known at start: said at start. Later: said then; after making room the run goes on."""
    told = scenario("quota", tmp_path)
    assert told["codes"] == [2, 2]
    assert told["after"] == 0
    at_start, on_the_way = told["errors"]
    assert "no room to write" in at_start
    assert "File too large" in at_start
    assert "no room to write" in on_the_way
    assert "step-000000008" in on_the_way
    assert [c.step for c in found(tmp_path / "way")] == [4, 8]

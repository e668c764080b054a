"""Words of a comparison while it runs: what changed, and never a minute without one."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from elbowroom.plugins.compare import command, worker
from elbowroom.plugins.compare.command import _Lines
from rich.console import Console

from tests.helpers.reporting import point


def state(label, status, **options):
    return point(Path("/nowhere"), label, values={"process": label}, status=status, **options)


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [0.0]
    monkeypatch.setattr(command.time, "monotonic", lambda: now[0])
    return now


def test_a_point_that_is_long_at_one_thing_is_heard_of(clock):
    """At once, then again after half a minute of silence; not every second."""
    heard = io.StringIO()
    lines = _Lines(1, Console(file=heard, width=200))
    for second in range(100):
        clock[0] = float(second)
        lines.update([state("masked", "running", task="preparing fid", done=1, total=3)])
    said = heard.getvalue().splitlines()
    assert [line.split()[0] for line in said] == ["0", "31", "62", "93"]
    assert all(line.endswith("masked · seed 0: preparing fid 1/3") for line in said)


def test_points_that_wait_or_ended_say_nothing_again(clock):
    """However long it takes."""
    heard = io.StringIO()
    lines = _Lines(2, Console(file=heard, width=200))
    for second in (0, 100, 200):
        clock[0] = float(second)
        lines.update([state("masked", "finished"), state("gaussian", "waiting")])
    assert heard.getvalue().count("masked") == 1 and "gaussian" not in heard.getvalue()


def test_a_new_task_is_noted_at_once(tmp_path, monkeypatch):
    """Between notes of one task there is half a second; another task does not wait for it."""
    noted = []
    monkeypatch.setattr(worker, "write_progress", lambda job, *what: noted.append(what))
    report = worker.throttled_progress(tmp_path)
    for what in [("preparing bpd", 0, 3), ("preparing fid", 1, 3), ("preparing fid", 1, 3)]:
        report(*what)
    assert noted == [("preparing bpd", 0, 3), ("preparing fid", 1, 3)]

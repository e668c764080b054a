"""Words of a comparison while it runs: what changed, and never a minute without one."""

from __future__ import annotations

import io

import pytest
from elbowroom.plugins.compare import command, point
from elbowroom.plugins.compare.command import _Lines
from elbowroom.plugins.compare.running import State
from rich.console import Console


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [0.0]
    monkeypatch.setattr(command.time, "monotonic", lambda: now[0])
    return now


def test_a_point_that_is_long_at_one_thing_is_heard_of(clock):
    """At once, then again after half a minute of silence; not every second."""
    heard = io.StringIO()
    lines = _Lines({"a": "masked"}, Console(file=heard, width=200))
    for second in range(100):
        clock[0] = float(second)
        lines.tell({"a": State("running", doing="preparing fid", done=1, of=3)})
    said = heard.getvalue().splitlines()
    assert [line.split()[0] for line in said] == ["0", "31", "62", "93"]
    assert all(line.endswith("masked: preparing fid 1/3") for line in said)


def test_points_that_wait_or_ended_say_nothing_again(clock):
    """However long it takes."""
    heard = io.StringIO()
    lines = _Lines({"a": "masked", "b": "gaussian"}, Console(file=heard, width=200))
    for second in (0, 100, 200):
        clock[0] = float(second)
        lines.tell({"a": State("finished"), "b": State("waiting")})
    assert heard.getvalue().count("masked") == 1 and "gaussian" not in heard.getvalue()


def test_a_new_task_is_noted_at_once(tmp_path, monkeypatch):
    """Between notes of one task there is half a second; another task does not wait for it."""
    noted = []
    monkeypatch.setattr(point, "note", lambda job, *what: noted.append(what))
    tell = point.sparing_notes(tmp_path)
    for what in [("preparing bpd", 0, 3), ("preparing fid", 1, 3), ("preparing fid", 1, 3)]:
        tell(*what)
    assert noted == [("preparing bpd", 0, 3), ("preparing fid", 1, 3)]

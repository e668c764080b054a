"""Progress by time: what is left, and no silence, by a clock that the test moves."""

from __future__ import annotations

from elbowroom.plugins.console.remaining_time import ProgressLines, RemainingTime, duration


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_what_is_left_does_not_count_the_start():
    """Ten seconds until the first step, then two a step: two for each that is left."""
    clock = Clock()
    pace = RemainingTime(clock)
    clock.now += 10
    assert pace.left(1, 11) is None
    clock.now += 4
    assert pace.left(3, 11) == 16
    clock.now += 100
    assert pace.left(11, 11) is None
    assert pace.left(0, 5) is None  # something else begins
    clock.now += 3
    assert pace.left(1, 5) == 12


def test_lines_come_when_it_was_silent_for_long():
    """Not before, whoever spoke last; each says how far it is and how long it will take."""
    clock, said = Clock(), []
    lines = ProgressLines(said.append, clock, silence=20)
    lines.at("drawing samples", 0, 100)
    clock.now += 10
    lines.at("drawing samples", 25, 100)
    assert said == []
    clock.now += 10
    lines.report()
    assert said == ["drawing samples 25/100, 0:00:20 so far, 0:00:30 to go"]
    clock.now += 10
    lines.restart_timer()
    clock.now += 19
    lines.at("computing fid", 3, 5)
    assert len(said) == 1
    clock.now += 61
    lines.report()
    assert said[1:] == ["computing fid 3/5, 0:01:01 so far"]


def test_a_thread_keeps_looking():
    """Nothing calls it, and the words come all the same; none after its end."""
    import threading

    spoken = threading.Event()
    lines = ProgressLines(lambda words: spoken.set(), silence=0)
    with lines.reporting(every=0.001):
        lines._doing = "thinking"
        assert spoken.wait(60)
    assert not [t for t in threading.enumerate() if t.name == "elbowroom-progress"]


def test_durations_have_days():
    """Hours, minutes, seconds; days where there are any."""
    assert [duration(s) for s in (0.4, 75, 3600, 90_000, 200_000)] == [
        "0:00:00",
        "0:01:15",
        "1:00:00",
        "1 day 1:00:00",
        "2 days 7:33:20",
    ]

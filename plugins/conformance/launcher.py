"""Laws of a launcher, on short jobs that write to a folder."""

from __future__ import annotations

import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from elbowroom.plugins.launchers.launcher import Ended, Job, Launcher

from .law import ensure, run

_LONG = 600  # seconds; no job takes that long unless it is not stopped

_WAITS = f"""
import pathlib, sys, time
place, end = pathlib.Path(sys.argv[1]), time.monotonic() + {_LONG}
(place / "began").touch()
while not (place / "go").exists():
    if time.monotonic() > end:
        sys.exit(3)
    time.sleep(0.02)
"""

_COUNTS = """
import os, pathlib, sys, time
place = pathlib.Path(sys.argv[1])
mine = place / f"{os.getpid()}.running"
mine.touch()
time.sleep(0.2)
print(len(list(place.glob("*.running"))))
mine.unlink()
"""

_SAVES = f"""
import pathlib, signal, sys, time
place = pathlib.Path(sys.argv[1])
def stop(*_):
    time.sleep(0.3)
    (place / "saved").touch()
    sys.exit(75)
signal.signal(signal.SIGTERM, stop)
(place / "began").touch()
time.sleep({_LONG})
"""


def check_launcher(launcher: Launcher, folder: Path | None = None) -> None:
    """Check the laws of a launcher with about ten short processes.

    ``folder`` is one that jobs can access (default: a temporary one).
    """
    laws = [_nothing, _each_once, _prints, _at_once, _signs_of_life, _closing]
    with tempfile.TemporaryDirectory(dir=folder) as place:
        run(launcher, laws, launcher, Path(place))


def _job(place: Path, name: str, code: str, tmp: Path | None = None) -> Job:
    return Job(name, ("-c", code, str(tmp or place)), place / f"{name}.txt")


def _ended(launcher: Launcher, jobs: list[Job], at_once: int) -> list[Ended]:
    return [event for event in launcher.run(jobs, at_once) if event is not None]


def _nothing(launcher: Launcher, _: Path) -> None:
    """Without jobs there are no events."""
    events = _ended(launcher, [], 2)
    ensure(not events, f"it yielded {events}.")


def _each_once(launcher: Launcher, place: Path) -> None:
    """Every job is reported once, with its exit code: 0 for success."""
    codes = {"well": "", "ill": "raise SystemExit(7)", "dies": "import os; os.kill(os.getpid(), 9)"}
    events = _ended(launcher, [_job(place, name, code) for name, code in codes.items()], 2)
    times = Counter(event.name for event in events)
    ensure(times == dict.fromkeys(codes, 1), f"jobs were reported so often: {dict(times)}.")
    found = {event.name: event.code for event in events}
    ensure(found["well"] == 0, f"a successful job is reported with {found['well']}.")
    ensure(found["ill"] == 7, f"a job that exited with 7 is reported with {found['ill']}.")
    ensure(found["dies"] != 0, "a job that was killed is reported as successful.")


def _prints(launcher: Launcher, place: Path) -> None:
    """The output of a job, on both streams, is in its file."""
    code = "import sys; print('to one'); print('to the other', file=sys.stderr)"
    _ended(launcher, [_job(place, "prints", code)], 1)
    output = place / "prints.txt"
    text = output.read_text("utf-8") if output.exists() else ""
    for words in ("to one", "to the other"):
        ensure(words in text, f"{words!r} is not there.")


def _at_once(launcher: Launcher, place: Path) -> None:
    """No more jobs run in parallel than allowed."""
    jobs = [_job(place, f"counts-{k}", _COUNTS) for k in range(4)]
    _ended(launcher, jobs, 2)
    most = max(int(job.output.read_text("utf-8").split()[-1]) for job in jobs)
    ensure(most <= 2, f"{most} ran where 2 were allowed.")


def _signs_of_life(launcher: Launcher, place: Path) -> None:
    """While no job ends it yields None, so that the caller can show progress."""
    mine = _folder(place, "waits")
    alive = False
    for event in launcher.run([_job(place, "waits", _WAITS, mine)], 1):
        alive = alive or event is None
        if event is None and (mine / "began").exists():
            (mine / "go").touch()
    ensure(alive, "nothing was yielded until the job ended.")


def _closing(launcher: Launcher, place: Path) -> None:
    """Closing its iterator stops running jobs by SIGTERM and waits for them."""
    mine = _folder(place, "saves")
    events: Iterator[Ended | None] = iter(launcher.run([_job(place, "saves", _SAVES, mine)], 1))
    with closing(events):  # type: ignore[type-var]  # a generator
        for _ in events:
            if (mine / "began").exists():
                break
    ensure((mine / "began").exists(), "the job did not begin.")
    name = signal.SIGTERM.name
    ensure((mine / "saved").exists(), f"a job that saves itself at {name} had no time to.")


def _folder(place: Path, name: str) -> Path:
    made = place / name
    made.mkdir()
    return made

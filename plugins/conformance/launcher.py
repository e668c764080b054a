"""Laws of a launcher, on jobs of a few lines that leave word in a folder."""

from __future__ import annotations

import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from elbowroom.plugins.launchers.launcher import Ended, Job, Launcher

from .law import ensure, run

_LONG = 600  # seconds that no job takes, unless a launcher forgets it

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
    """Every law of a launcher; ``folder`` is one that its jobs see too (default: a temporary one).

    It starts about ten short Python processes.
    """
    laws = [_nothing, _each_once, _prints, _at_once, _signs_of_life, _closing]
    with tempfile.TemporaryDirectory(dir=folder) as place:
        run(launcher, laws, launcher, Path(place))


def _job(place: Path, name: str, code: str, tmp: Path | None = None) -> Job:
    return Job(name, ("-c", code, str(tmp or place)), place / f"{name}.txt")


def _ended(launcher: Launcher, jobs: list[Job], at_once: int) -> list[Ended]:
    return [event for event in launcher.run(jobs, at_once) if event is not None]


def _nothing(launcher: Launcher, _: Path) -> None:
    """Without jobs there is nothing to tell."""
    told = _ended(launcher, [], 2)
    ensure(not told, f"it told {told}.")


def _each_once(launcher: Launcher, place: Path) -> None:
    """Every job is told once, with its exit code: 0 if all went well."""
    codes = {"well": "", "ill": "raise SystemExit(7)", "dies": "import os; os.kill(os.getpid(), 9)"}
    told = _ended(launcher, [_job(place, name, code) for name, code in codes.items()], 2)
    times = Counter(event.name for event in told)
    ensure(times == dict.fromkeys(codes, 1), f"jobs were told so often: {dict(times)}.")
    said = {event.name: event.code for event in told}
    ensure(said["well"] == 0, f"a job that went well ended with {said['well']}.")
    ensure(said["ill"] == 7, f"a job that ended with 7 is told with {said['ill']}.")
    ensure(said["dies"] != 0, "a job that was killed is told as gone well.")


def _prints(launcher: Launcher, place: Path) -> None:
    """What a job prints, on both streams, is in its file."""
    code = "import sys; print('to one'); print('to the other', file=sys.stderr)"
    _ended(launcher, [_job(place, "prints", code)], 1)
    output = place / "prints.txt"
    text = output.read_text("utf-8") if output.exists() else ""
    for words in ("to one", "to the other"):
        ensure(words in text, f"{words!r} is not there.")


def _at_once(launcher: Launcher, place: Path) -> None:
    """No more jobs run at once than allowed."""
    jobs = [_job(place, f"counts-{k}", _COUNTS) for k in range(4)]
    _ended(launcher, jobs, 2)
    most = max(int(job.output.read_text("utf-8").split()[-1]) for job in jobs)
    ensure(most <= 2, f"{most} ran where 2 were allowed.")


def _signs_of_life(launcher: Launcher, place: Path) -> None:
    """While nothing ends it yields None: the caller shows progress then."""
    mine = _folder(place, "waits")
    alive = False
    for event in launcher.run([_job(place, "waits", _WAITS, mine)], 1):
        alive = alive or event is None
        if event is None and (mine / "began").exists():
            (mine / "go").touch()
    ensure(alive, "nothing was yielded until the job ended.")


def _closing(launcher: Launcher, place: Path) -> None:
    """When its iterator is closed, running jobs are asked to stop (SIGTERM) and waited for."""
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

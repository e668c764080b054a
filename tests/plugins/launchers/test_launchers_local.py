"""The local launcher: processes that start, end, and are ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from elbowroom.plugins.conformance import check_launcher
from elbowroom.plugins.launchers.launcher import ENDS_WITH_INPUT, Ended, Job
from elbowroom.plugins.launchers.local import Local


def job(tmp_path, name, code):
    return Job(name, ("-c", code), tmp_path / f"{name}.txt")


def ended(events):
    return [event for event in events if event is not None]


def test_it_keeps_the_laws_of_a_launcher():
    """It passes the conformance kit."""
    check_launcher(Local())


def test_each_job_is_told_as_it_ends(tmp_path):
    """With its exit code; what it printed is kept."""
    jobs = [
        job(tmp_path, "well", "print('done')"),
        job(tmp_path, "ill", "import sys; sys.exit(7)"),
        job(tmp_path, "killed", "import os; os.kill(os.getpid(), 9)"),
    ]
    assert ended(Local().run(jobs, 1)) == [Ended("well", 0), Ended("ill", 7), Ended("killed", -9)]
    assert (tmp_path / "well.txt").read_text() == "done\n"


def test_no_more_run_at_once_than_allowed(tmp_path):
    """Four jobs, two at a time: never three lock files, and once two."""
    code = (
        "import os, time, pathlib\n"
        f"place = pathlib.Path({str(tmp_path)!r})\n"
        "mine = place / f'{os.getpid()}.lock'\n"
        "mine.touch(); (place / f'{os.getpid()}.began').touch()\n"
        "while len(list(place.glob('*.began'))) < 2: time.sleep(0.02)\n"
        "time.sleep(0.2); print(len(list(place.glob('*.lock'))))\n"
        "mine.unlink()"
    )
    jobs = [job(tmp_path, str(k), code) for k in range(4)]
    assert len(ended(Local().run(jobs, 2))) == 4
    together = [int((tmp_path / f"{k}.txt").read_text()) for k in range(4)]
    assert max(together) == 2


def test_it_shows_signs_of_life(tmp_path):
    """While nothing ends, None comes about twice a second."""
    events = list(Local().run([job(tmp_path, "slow", "import time; time.sleep(1.5)")], 1))
    assert events.count(None) >= 2


def test_closing_asks_jobs_to_stop_and_waits(tmp_path):
    """SIGTERM, and time to save: what the job writes then is there."""
    code = (
        "import signal, sys, time\n"
        "def stop(*_): time.sleep(0.3); print('saved', flush=True); sys.exit(75)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    events = Local().run([job(tmp_path, "polite", code)], 1)
    for _ in events:
        if (tmp_path / "polite.txt").read_text() == "ready\n":
            break
    began = time.monotonic()
    events.close()
    assert (tmp_path / "polite.txt").read_text() == "ready\nsaved\n"
    assert time.monotonic() - began < 55  # not by its end


def test_jobs_are_told_to_mind_their_input(tmp_path):
    """The launcher holds the other end."""
    code = f"import os; print(os.environ[{ENDS_WITH_INPUT!r}])"
    ended(Local().run([job(tmp_path, "told", code)], 1))
    assert (tmp_path / "told.txt").read_text() == "1\n"


def test_cores_are_shared(tmp_path, monkeypatch):
    """Each job gets its part of them, unless the user says otherwise."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    code = "import os; print(os.environ['OMP_NUM_THREADS'])"
    ended(Local(threads=3).run([job(tmp_path, "three", code)], 2))
    assert (tmp_path / "three.txt").read_text() == "3\n"
    ended(Local().run([job(tmp_path, "part", code)], 10_000))
    assert (tmp_path / "part.txt").read_text() == "1\n"
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    ended(Local().run([job(tmp_path, "own", code)], 1))
    assert (tmp_path / "own.txt").read_text() == "5\n"


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
def test_a_job_ends_with_whoever_started_it():
    """When its input ends, a point sends itself SIGTERM: no orphan goes on training."""
    code = (
        "import time\nfrom elbowroom.plugins.compare.worker import _end_with_parent\n"
        "_end_with_parent(); print('ready', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout.readline() == b"ready\n"
    child.stdin.close()
    assert child.wait(timeout=300) == -signal.SIGTERM
    child.stdout.close()


def test_a_job_that_is_through_ends_in_peace():
    """It still listens to its input then, and exits with its own code all the same."""
    code = (
        "import sys\nfrom elbowroom.plugins.compare.worker import _end_with_parent\n"
        "_end_with_parent(); sys.exit(4)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.wait(timeout=300) == 4
        assert child.stderr.read() == b""

"""``local``: each point a process on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence

import attrs

from .launcher import ENDS_WITH_INPUT, Ended, Job, Launcher

_TICK = 0.1  # seconds between looks
_BEAT = 5  # looks between signs of life


@attrs.frozen
class Local(Launcher):
    """Processes on this machine, which share its cores evenly unless ``threads`` says how many."""

    threads: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )

    def run(self, jobs: Sequence[Job], at_once: int) -> Iterator[Ended | None]:
        waiting = deque(jobs)
        running: dict[str, subprocess.Popen[bytes]] = {}
        looks = 0
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    job = waiting.popleft()
                    running[job.name] = self._start(job, at_once)
                for name, process in list(running.items()):
                    if process.poll() is not None:
                        del running[name]
                        yield Ended(name, process.returncode)
                if looks % _BEAT == 0:
                    yield None
                looks += 1
                time.sleep(_TICK)
        finally:
            _stop(list(running.values()))

    def _start(self, job: Job, at_once: int) -> subprocess.Popen[bytes]:
        threads = self.threads or max(1, _cores() // at_once)
        environment = {"OMP_NUM_THREADS": str(threads), **os.environ, ENDS_WITH_INPUT: "1"}
        job.output.parent.mkdir(parents=True, exist_ok=True)
        with job.output.open("wb") as output:
            return subprocess.Popen(  # noqa: S603  # our own interpreter and command
                [sys.executable, *job.command],
                stdin=subprocess.PIPE,  # never written to: its end tells the job that we are gone
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # Ctrl-C is ours to hear; jobs are asked to stop by us
            )


def _stop(running: list[subprocess.Popen[bytes]]) -> None:
    for process in running:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    try:
        for process in running:
            process.wait()
    except BaseException:
        for process in running:
            process.kill()
        raise


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

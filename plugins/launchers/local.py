"""``local``: a process on this machine for each job."""

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

_POLL = 0.1  # seconds
_YIELD = 5  # polls between two yields of None


@attrs.frozen
class Local(Launcher):
    """Processes on this machine; each has ``threads`` threads, by default an equal share."""

    threads: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )

    def run(self, jobs: Sequence[Job], at_once: int) -> Iterator[Ended | None]:
        waiting = deque(jobs)
        running: dict[str, subprocess.Popen[bytes]] = {}
        polls = 0
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    job = waiting.popleft()
                    running[job.name] = self._start(job, at_once)
                for name, process in list(running.items()):
                    if process.poll() is not None:
                        del running[name]
                        yield Ended(name, process.returncode)
                if polls % _YIELD == 0:
                    yield None
                polls += 1
                time.sleep(_POLL)
        finally:
            _stop(list(running.values()))

    def _start(self, job: Job, at_once: int) -> subprocess.Popen[bytes]:
        threads = self.threads or max(1, _cores() // at_once)
        environment = {"OMP_NUM_THREADS": str(threads), **os.environ, ENDS_WITH_INPUT: "1"}
        job.output.parent.mkdir(parents=True, exist_ok=True)
        with job.output.open("wb") as output:
            return subprocess.Popen(  # noqa: S603  # this interpreter and a fixed command
                [sys.executable, *job.command],
                stdin=subprocess.PIPE,  # never written to: closed when this process ends
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # Ctrl-C reaches this process only, which stops the jobs
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

"""Launchers: run the jobs of a comparison.

A :class:`Job` is a command for a Python interpreter that has elbowroom: ``python *command``. It
reads and writes only the comparison's folder, which must have the same path where the job runs.
Results are read from the folder; a launcher only reports that a job ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

ENDS_WITH_INPUT = "ELBOWROOM_ENDS_WITH_INPUT"
"""Environment variable of a job that stops, as on SIGTERM, when its standard input is closed: if
the launcher that holds the other end dies, no job is left running."""


@attrs.frozen
class Job:
    """One command to run."""

    name: str
    command: tuple[str, ...]  # arguments of ``python``
    output: Path  # file for its standard output and error


@attrs.frozen
class Ended:
    """A job that has ended."""

    name: str
    code: int  # exit code; negative: killed by that signal


class Launcher(ABC):
    """Runs jobs, several at a time."""

    @abstractmethod
    def run(self, jobs: Sequence[Job], at_once: int) -> Iterator[Ended | None]:
        """Run every job, at most ``at_once`` at a time, and yield each as it ends.

        While no job ends, yield None about twice a second, so that the caller can show progress.
        When the iterator is closed, send SIGTERM (or the like) to the running jobs and wait for
        them, as runs then save a checkpoint. If the wait is interrupted, kill them.
        """

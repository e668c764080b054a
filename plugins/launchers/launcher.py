"""Launchers: where the points of a comparison run.

A :class:`Job` is a command for a Python interpreter with elbowroom in it: ``python *command``. It
reads and writes the comparison's folder and nothing else, so a launcher needs only a place where
that folder is to be seen under the same path. What a job did is found in the folder; a launcher
tells merely that it ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

ENDS_WITH_INPUT = "ELBOWROOM_ENDS_WITH_INPUT"
"""Environment variable of a job that shall stop politely when its standard input ends: a launcher
that holds the other end thereby leaves no orphans, however it dies."""


@attrs.frozen
class Job:
    """One command to run."""

    name: str
    command: tuple[str, ...]  # what follows ``python``
    output: Path  # where what it prints goes


@attrs.frozen
class Ended:
    """A job that is over."""

    name: str
    code: int  # 0: well; negative: killed by that signal


class Launcher(ABC):
    """Runs jobs, a few at a time."""

    @abstractmethod
    def run(self, jobs: Sequence[Job], at_once: int) -> Iterator[Ended | None]:
        """Run every job, at most ``at_once`` together, and tell each as it ends.

        While nothing ends, yield None about twice a second: the caller shows progress then. When
        the iterator is closed, send SIGTERM (or its like) to the jobs that run, and wait for them:
        a run saves itself. When that wait is interrupted, kill them.
        """

"""A live progress bar on a terminal, plain lines elsewhere; both on standard error.

Standard output stays free for what a command returns.
"""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from elbowroom import RunEvent

_WORDS = {
    "loss": "loss {:.4g}",
    "bits_per_dim": "bits/dim {:.3f}",
    "validation/bits_per_dim": "validation {:.3f}",
    "images_per_second": "{:.0f} images/s",
}


class Display(ABC):
    """Where the progress of one run is shown."""

    @abstractmethod
    def show(self, step: int, words: str) -> None:
        """The run is at ``step``."""

    @abstractmethod
    def say(self, line: str) -> None:
        """Something worth a line of its own."""

    def close(self) -> None:  # noqa: B027  # only a live display has something to put away
        """Nothing more will be shown."""


class Lines(Display):
    """For files and pipes: one line each time."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def show(self, step: int, words: str) -> None:
        self.say(f"step {step}/{self.steps}  {words}")

    def say(self, line: str) -> None:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


class Bar(Display):
    """For terminals: a bar that moves."""

    def __init__(self, steps: int, step: int, console: Console) -> None:
        self.progress = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[words]}"),
            TimeElapsedColumn(),
            console=console,
        )
        self.progress.start()
        self.task = self.progress.add_task("training", total=steps, completed=step, words="")

    def show(self, step: int, words: str) -> None:
        self.progress.update(self.task, completed=step, words=words)

    def say(self, line: str) -> None:
        self.progress.console.print(line, markup=False, highlight=False)

    def close(self) -> None:
        self.progress.stop()


@attrs.define
class _Run:
    display: Display
    begun_at: int
    begun: float = attrs.Factory(time.monotonic)
    scalars: dict[str, float] = attrs.Factory(dict)


_runs: dict[Path, _Run] = {}  # those in this process


def start(event: RunEvent, console: Console | None = None) -> None:
    """Begin to show a run."""
    console = console or Console(stderr=True)
    live = console.is_terminal and not console.is_dumb_terminal
    display = Bar(event.steps, event.step, console) if live else Lines(event.steps)
    _runs[event.folder] = _Run(display, event.step)
    what = f"resuming at step {event.step}" if event.step else "training"
    display.say(f"{what} in {event.folder}")


def show(event: RunEvent) -> None:
    """Where it stands, how fast it goes and when it will be done."""
    if run := _runs.get(event.folder):
        run.scalars.update(event.scalars)
        words = [
            form.format(run.scalars[name]) for name, form in _WORDS.items() if name in run.scalars
        ]
        run.display.show(event.step, "  ".join([*words, _eta(run, event)]))


def saved(event: RunEvent) -> None:
    """A checkpoint is there."""
    if (run := _runs.get(event.folder)) and event.path is not None:
        run.display.say(f"saved {event.path}")


def end(event: RunEvent) -> None:
    """The last words of a run."""
    if run := _runs.pop(event.folder, None):
        run.display.close()
        run.display.say(f"{event.reason} at step {event.step} of {event.steps}")
        if event.reason == "interrupted":
            run.display.say(f"go on with: elbowroom train --resume {event.folder}")


def _eta(run: _Run, event: RunEvent) -> str:
    done = event.step - run.begun_at
    if done <= 0:
        return ""
    left = (time.monotonic() - run.begun) / done * (event.steps - event.step)
    hours, rest = divmod(round(left), 3600)
    return f"ETA {hours}:{rest // 60:02d}:{rest % 60:02d}"

"""A live progress bar on a terminal, plain lines elsewhere; both on standard error.

Standard output stays free for what a command returns.
"""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from elbowroom.cli import console as terminal, printable
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .remaining_time import ProgressLines, RemainingTime, duration

if TYPE_CHECKING:
    from elbowroom import RunEvent

_TOO_LONG = 24 * 3600  # seconds on a CPU
_LONG = 5.0  # seconds of a first step that is not only starting up

_WORDS = {
    "loss": "loss {:.4g}",
    "bits_per_dim": "bits/dim {:.3f}",
    "validation/bits_per_dim": "validation {:.3f}",
    "images_per_second": "{:.0f} examples/s",
}


class Display(ABC):
    """Where the progress of one run is shown."""

    @abstractmethod
    def show(self, step: int, words: Mapping[str, str], left: str) -> None:
        """The run is at ``step``: words by the scalar they tell, and the time left."""

    @abstractmethod
    def move(self, event: RunEvent, left: str) -> None:
        """Time has passed, and nothing was logged."""

    @abstractmethod
    def say(self, line: str) -> None:
        """Something worth a line of its own."""

    def close(self) -> None:  # noqa: B027  # only a live display has something to put away
        """Nothing more will be shown."""


class Plain(Display):
    """For files and pipes: a line of what is new, and one when it was silent for long."""

    def __init__(self, steps: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.steps = steps
        self.lines = ProgressLines(self._write, clock)
        self._open = ExitStack()
        self._open.enter_context(self.lines.reporting())

    def show(self, step: int, words: Mapping[str, str], left: str) -> None:
        self.say(
            "  ".join([f"step {step}/{self.steps}", *words.values(), *([left] if left else [])])
        )

    def move(self, event: RunEvent, left: str) -> None:
        self.lines.at(f"{event.doing}, step", event.step, self.steps)

    def say(self, line: str) -> None:
        self.lines.restart_timer()
        self._write(line)

    def close(self) -> None:
        self._open.close()

    def _write(self, line: str) -> None:
        sys.stderr.write(printable(line) + "\n")
        sys.stderr.flush()


class Bar(Display):
    """For terminals: a bar that moves."""

    def __init__(self, steps: int, step: int, console: Console) -> None:
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[words]}"),
            TimeElapsedColumn(),
            console=console,
        )
        self._words: dict[str, str] = {}  # the last of each scalar
        self.progress.start()
        self.task = self.progress.add_task("training", total=steps, completed=step, words="")

    def show(self, step: int, words: Mapping[str, str], left: str) -> None:
        self._words.update(words)
        self.progress.update(self.task, completed=step, words=self._beside(left))

    def move(self, event: RunEvent, left: str) -> None:
        self.progress.update(
            self.task, completed=event.step, description=event.doing, words=self._beside(left)
        )

    def _beside(self, left: str) -> str:
        return "  ".join([*(self._words[name] for name in _WORDS if name in self._words), left])

    def say(self, line: str) -> None:
        self.progress.console.print(line, markup=False, highlight=False)

    def close(self) -> None:
        self.progress.stop()


@attrs.define
class _Run:
    display: Display
    pace: RemainingTime
    clock: Callable[[], float]
    begun: float
    moved: bool = False  # has it gone on at all?
    timed: bool = False  # has it been said how long it will take?


_runs: dict[Path, _Run] = {}  # those in this process


def start(
    event: RunEvent,
    console: Console | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Begin to show a run."""
    console = console or terminal(stderr=True)
    live = console.is_terminal and not console.is_dumb_terminal
    display = Bar(event.steps, event.step, console) if live else Plain(event.steps, clock)
    _runs[event.folder] = run = _Run(display, RemainingTime(clock), clock, clock())
    run.pace.left(event.step, event.steps)
    display.move(event, "")
    what = f"resuming at step {event.step}" if event.step else "training"
    display.say(f"{what} in {event.folder}")


def show(event: RunEvent) -> None:
    """Where it stands, how fast it goes and when it will be done."""
    if run := _runs.get(event.folder):
        scalars = event.scalars
        words = {
            name: form.format(scalars[name]) for name, form in _WORDS.items() if name in scalars
        }
        run.display.show(event.step, words, _words_of(run.pace.left(event.step, event.steps)))


def move(event: RunEvent) -> None:
    """It goes on; as soon as that can be known, how long it will take."""
    if not (run := _runs.get(event.folder)):
        return
    left = run.pace.left(event.step, event.steps)
    if not run.moved:  # the first step is counted only where it is long: much happens but once
        run.moved = True
        if run.clock() - run.begun < _LONG:
            run.pace = RemainingTime(run.clock)
            left = run.pace.left(event.step, event.steps)
    run.display.move(event, _words_of(left))
    if left is not None and not run.timed:
        run.timed = True
        for line in _outlook(left, event):
            run.display.say(line)


def _outlook(left: float, event: RunEvent) -> list[str]:
    each = left / (event.steps - event.step)
    told = [f"{each:.2g} s a step: {duration(left)} to go"]
    if event.device == "cpu" and left > _TOO_LONG:
        told.append(
            "warning: this config was made for a GPU and runs on a CPU: choose a smaller one "
            "(elbowroom presets)"
        )
    return told


def saved(event: RunEvent) -> None:
    """A checkpoint is there: its place in the run's folder, which was said at the start."""
    if (run := _runs.get(event.folder)) and event.path is not None:
        inside = event.path.is_relative_to(event.folder)
        run.display.say(f"saved {event.path.relative_to(event.folder) if inside else event.path}")


def end(event: RunEvent) -> None:
    """How the run ended; how to go on with it is the command's to say."""
    if run := _runs.pop(event.folder, None):
        run.display.close()
        run.display.say(f"{event.reason} at step {event.step} of {event.steps}")


def _words_of(left: float | None) -> str:
    return "" if left is None else f"ETA {duration(left)}"

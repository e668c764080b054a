"""A progress bar on a terminal, plain lines elsewhere; both on standard error.

Standard output is for the results of commands.
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

_VERY_LONG = 24 * 3600  # seconds on a CPU: warn
_LONG_STEP = 5.0  # seconds: a first step this long is more than start-up

_FORMATS = {
    "loss": "loss {:.4g}",
    "bits_per_dim": "bits/dim {:.3f}",
    "validation/bits_per_dim": "validation {:.3f}",
    "images_per_second": "{:.0f} examples/s",
}


class Display(ABC):
    """Shows the progress of one run."""

    @abstractmethod
    def show(self, step: int, scalars: Mapping[str, str], left: str) -> None:
        """Show formatted scalars by name, and the remaining time."""

    @abstractmethod
    def move(self, event: RunEvent, left: str) -> None:
        """Update the progress between logging steps."""

    @abstractmethod
    def say(self, line: str) -> None:
        """Print a line."""

    def close(self) -> None:  # noqa: B027  # only a live display needs it
        """Stop the display."""


class Plain(Display):
    """For files and pipes: a line per event, and one after a long silence."""

    def __init__(self, steps: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.steps = steps
        self.lines = ProgressLines(self._write, clock)
        self._open = ExitStack()
        self._open.enter_context(self.lines.reporting())

    def show(self, step: int, scalars: Mapping[str, str], left: str) -> None:
        self.say(
            "  ".join([f"step {step}/{self.steps}", *scalars.values(), *([left] if left else [])])
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
    """For terminals: a progress bar."""

    def __init__(self, steps: int, step: int, console: Console) -> None:
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[words]}"),
            TimeElapsedColumn(),
            console=console,
        )
        self._scalars: dict[str, str] = {}  # latest, by scalar
        self.progress.start()
        self.task = self.progress.add_task("training", total=steps, completed=step, words="")

    def show(self, step: int, scalars: Mapping[str, str], left: str) -> None:
        self._scalars.update(scalars)
        self.progress.update(self.task, completed=step, words=self._text(left))

    def move(self, event: RunEvent, left: str) -> None:
        self.progress.update(
            self.task, completed=event.step, description=event.doing, words=self._text(left)
        )

    def _text(self, left: str) -> str:
        return "  ".join(
            [*(self._scalars[name] for name in _FORMATS if name in self._scalars), left]
        )

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
    moved: bool = False  # a step is done
    timed: bool = False  # the estimated duration was printed


_runs: dict[Path, _Run] = {}  # by run folder


def start(
    event: RunEvent,
    console: Console | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Start the display of a run."""
    console = console or terminal(stderr=True)
    live = console.is_terminal and not console.is_dumb_terminal
    display = Bar(event.steps, event.step, console) if live else Plain(event.steps, clock)
    _runs[event.folder] = run = _Run(display, RemainingTime(clock), clock, clock())
    run.pace.left(event.step, event.steps)
    display.move(event, "")
    what = f"resuming at step {event.step}" if event.step else "training"
    display.say(f"{what} in {event.folder}")


def show(event: RunEvent) -> None:
    """Show step, scalars, speed and remaining time."""
    if run := _runs.get(event.folder):
        scalars = event.scalars
        words = {
            name: form.format(scalars[name]) for name, form in _FORMATS.items() if name in scalars
        }
        run.display.show(event.step, words, _eta(run.pace.left(event.step, event.steps)))


def move(event: RunEvent) -> None:
    """Update the progress; print the estimated duration once it is known."""
    if not (run := _runs.get(event.folder)):
        return
    left = run.pace.left(event.step, event.steps)
    if not run.moved:  # the first step includes start-up: it counts only if it is long
        run.moved = True
        if run.clock() - run.begun < _LONG_STEP:
            run.pace = RemainingTime(run.clock)
            left = run.pace.left(event.step, event.steps)
    run.display.move(event, _eta(left))
    if left is not None and not run.timed:
        run.timed = True
        for line in _duration_lines(left, event):
            run.display.say(line)


def _duration_lines(left: float, event: RunEvent) -> list[str]:
    each = left / (event.steps - event.step)
    lines = [f"{each:.2g} s per step, {duration(left)} remaining"]
    if event.device == "cpu" and left > _VERY_LONG:
        lines.append(
            "warning: this run takes more than a day on this CPU. Use a GPU or a smaller preset "
            "(elbowroom presets)"
        )
    return lines


def saved(event: RunEvent) -> None:
    """Print the path of a checkpoint, relative to the run folder."""
    if (run := _runs.get(event.folder)) and event.path is not None:
        inside = event.path.is_relative_to(event.folder)
        run.display.say(f"saved {event.path.relative_to(event.folder) if inside else event.path}")


def end(event: RunEvent) -> None:
    """Stop the display and print how the run ended."""
    if run := _runs.pop(event.folder, None):
        run.display.close()
        run.display.say(f"{event.reason} at step {event.step} of {event.steps}")


def _eta(left: float | None) -> str:
    return "" if left is None else f"ETA {duration(left)}"

"""Progress bars on a terminal, progress lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from elbowroom.cli import console, is_first_rank

from .remaining_time import ProgressLines


def progress_bars() -> Any:
    """Live bars on stderr where that is a terminal; silence elsewhere."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn as Left,
    )

    err = console(stderr=True)
    words = TextColumn("{task.description}", markup=False)
    columns = (words, BarColumn(), MofNCompleteColumn(), Left(elapsed_when_finished=True))
    return Progress(
        *columns, console=err, transient=True, disable=not (err.is_terminal and is_first_rank())
    )


@contextmanager
def progress_display() -> Iterator[Callable[[str, int, int], None]]:
    """Takes (what is being done, how much is done, of how much); shows it with the time left.

    A bar on a terminal; elsewhere lines on stderr, where there would be silence for long.
    """
    err = console(stderr=True)
    if not is_first_rank():
        yield lambda *_: None
        return
    if err.is_terminal:
        with progress_bars() as bars:
            task = bars.add_task("", total=None)
            yield lambda what, done, of: bars.update(
                task, description=what, completed=done, total=of
            )
        return
    with ProgressLines(lambda words: err.print(words, markup=False)).reporting() as lines:
        yield lines.at

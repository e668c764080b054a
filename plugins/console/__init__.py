"""The console: how a run is going, while it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elbowroom import hookimpl

if TYPE_CHECKING:
    from elbowroom import RunEvent


@hookimpl
def run_started(event: RunEvent) -> None:
    """Begin a progress bar, or plain lines where there is no terminal."""
    from .progress import start

    start(event)


@hookimpl
def step_logged(event: RunEvent) -> None:
    """Move on."""
    from .progress import show

    show(event)


@hookimpl
def progressed(event: RunEvent) -> None:
    """Move on with time, whenever the next log is."""
    from .progress import move

    move(event)


@hookimpl
def evaluated(event: RunEvent) -> None:
    """Say the measurements."""
    from .progress import show

    show(event)


@hookimpl
def checkpoint_saved(event: RunEvent) -> None:
    """Say where it is."""
    from .progress import saved

    saved(event)


@hookimpl
def run_ended(event: RunEvent) -> None:
    """Say how it ended."""
    from .progress import end

    end(event)

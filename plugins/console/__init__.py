"""The console: progress of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elbowroom import hookimpl

if TYPE_CHECKING:
    from elbowroom import RunEvent


@hookimpl
def run_started(event: RunEvent) -> None:
    """Start a progress bar, or plain lines without a terminal."""
    from .progress import start

    start(event)


@hookimpl
def step_logged(event: RunEvent) -> None:
    """Show scalars."""
    from .progress import show

    show(event)


@hookimpl
def progressed(event: RunEvent) -> None:
    """Update progress between logging steps."""
    from .progress import move

    move(event)


evaluated = step_logged


@hookimpl
def checkpoint_saved(event: RunEvent) -> None:
    """Print the path of the checkpoint."""
    from .progress import saved

    saved(event)


@hookimpl
def run_ended(event: RunEvent) -> None:
    """Print how the run ended."""
    from .progress import end

    end(event)

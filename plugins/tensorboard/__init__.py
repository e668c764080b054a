"""TensorBoard: logs runs to ``RUN/tensorboard``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elbowroom import hookimpl

if TYPE_CHECKING:
    from elbowroom import RunEvent


@hookimpl
def run_started(event: RunEvent) -> None:
    """Open the event file and write the config."""
    from .writer import start

    start(event)


@hookimpl
def step_logged(event: RunEvent) -> None:
    """Write scalars, the loss by level and images."""
    from .writer import write

    write(event)


evaluated = step_logged


@hookimpl
def run_ended(event: RunEvent) -> str | None:
    """Close the event file, and return the command that shows it."""
    from .writer import end

    if not end(event):
        return None
    return f"logs       tensorboard --logdir {event.folder / 'tensorboard'}"

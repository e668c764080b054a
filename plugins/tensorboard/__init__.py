"""TensorBoard: what a run logs; ``tensorboard --logdir RUN/tensorboard`` shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elbowroom import hookimpl

if TYPE_CHECKING:
    from elbowroom import RunEvent


@hookimpl
def run_started(event: RunEvent) -> None:
    """Open the event file and write the run's choices."""
    from .writer import start

    start(event)


@hookimpl
def step_logged(event: RunEvent) -> None:
    """Scalars, and the loss by level."""
    from .writer import write

    write(event)


@hookimpl
def evaluated(event: RunEvent) -> None:
    """Measurements and pictures of an evaluation."""
    from .writer import write

    write(event)


@hookimpl
def run_ended(event: RunEvent) -> str:
    """Close the event file, and say how to look at it."""
    from .writer import end

    end(event)
    return f"logs       tensorboard --logdir {event.folder / 'tensorboard'}"

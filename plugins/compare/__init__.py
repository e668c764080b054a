"""The same benchmark for every point of a grid of configs, and one report of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elbowroom import hookimpl

if TYPE_CHECKING:
    from elbowroom import RunEvent

_HERE = "elbowroom.plugins.compare"


@hookimpl
def commands() -> dict[str, str]:
    """What this plugin adds to the command line."""
    return {
        "compare": f"{_HERE}.command:compare",
    }


@hookimpl
def progressed(event: RunEvent) -> None:
    """Leave word of how far the training of a point is."""
    from .point import note_training

    note_training(event)

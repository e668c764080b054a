"""Command ``compare``: the same benchmark for every point of a grid of configs, and one report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elbowroom import hookimpl

if TYPE_CHECKING:
    from elbowroom import RunEvent


@hookimpl
def commands() -> dict[str, str]:
    """Return the command ``compare``."""
    return {"compare": "elbowroom.plugins.compare.command:compare"}


@hookimpl
def progressed(event: RunEvent) -> None:
    """Write how far the training of a point is."""
    from .worker import report_training

    report_training(event)

"""Command ``bench``: speed of the train step and of samplers, next to a bare training loop."""

from __future__ import annotations

from elbowroom import hookimpl


@hookimpl
def commands() -> dict[str, str]:
    """Return the command ``bench``."""
    return {"bench": "elbowroom.plugins.bench.command:bench"}

"""The same benchmark for every point of a grid of configs, and one report of it."""

from __future__ import annotations

from elbowroom import hookimpl

_HERE = "elbowroom.plugins.compare"


@hookimpl
def commands() -> dict[str, str]:
    """What this plugin adds to the command line."""
    return {
        "compare": f"{_HERE}.command:compare",
    }

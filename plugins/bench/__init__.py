"""Speed: our train step and samplers, side by side with a bare loop."""

from __future__ import annotations

from elbowroom import hookimpl

_HERE = "elbowroom.plugins.bench"


@hookimpl
def commands() -> dict[str, str]:
    """What this plugin adds to the command line."""
    return {
        "bench": f"{_HERE}.command:bench",
    }

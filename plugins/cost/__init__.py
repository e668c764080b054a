"""Costs before they are paid: operations, memory and hours of a config."""

from __future__ import annotations

from elbowroom import hookimpl

_HERE = "elbowroom.plugins.cost"


@hookimpl
def commands() -> dict[str, str]:
    """What this plugin adds to the command line."""
    return {"cost": f"{_HERE}.command:cost"}

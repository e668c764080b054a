"""The schema of configs, for editors."""

from __future__ import annotations

from elbowroom import hookimpl

_HERE = "elbowroom.plugins.schema"


@hookimpl
def commands() -> dict[str, str]:
    """What this plugin adds to the command line."""
    return {"schema": f"{_HERE}.command:schema"}

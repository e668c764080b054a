"""The scaffold of a plugin package."""

from __future__ import annotations

from elbowroom import hookimpl

_HERE = "elbowroom.plugins.new_plugin"


@hookimpl
def commands() -> dict[str, str]:
    """What this plugin adds to the command line."""
    return {
        "new-plugin": f"{_HERE}.command:new_plugin",
    }

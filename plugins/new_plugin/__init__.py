"""The generator of plugin packages."""

from __future__ import annotations

from elbowroom import hookimpl


@hookimpl
def commands() -> dict[str, str]:
    """Write the package of a new plugin."""
    return {"new-plugin": "elbowroom.plugins.new_plugin.command:new_plugin"}

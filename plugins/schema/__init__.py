"""The JSON Schema of configs, for editors."""

from __future__ import annotations

from elbowroom import hookimpl


@hookimpl
def commands() -> dict[str, str]:
    """Print the schema."""
    return {"schema": "elbowroom.plugins.schema.command:schema"}

"""The doctor: diagnosis of the installed plugins."""

from __future__ import annotations

from elbowroom import hookimpl


@hookimpl
def commands() -> dict[str, str]:
    """Examine the installed plugins."""
    return {"doctor": "elbowroom.plugins.doctor.command:doctor"}

"""Export: writing a run in the format of another library."""

from __future__ import annotations

from elbowroom import Kind, hookimpl

_HERE = "elbowroom.plugins.export"


@hookimpl
def kinds() -> list[Kind]:
    """Exporters."""
    return [Kind("exporter", "exporters", f"{_HERE}.exporter:Exporter", "Export formats")]


@hookimpl
def commands() -> dict[str, str]:
    """The command ``export``."""
    return {"export": f"{_HERE}.command:export"}

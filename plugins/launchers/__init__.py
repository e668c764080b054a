"""Launchers: where the points of a comparison run."""

from __future__ import annotations

from collections.abc import Mapping

from elbowroom import Kind, hookimpl

_HERE = "elbowroom.plugins.launchers"


@hookimpl
def kinds() -> list[Kind]:
    """Where jobs run."""
    return [Kind("launcher", "launchers", f"{_HERE}.launcher:Launcher", "Job launchers")]


@hookimpl
def launchers() -> Mapping[str, str]:
    """Name -> class, imported when a comparison uses it."""
    return {"local": f"{_HERE}.local:Local"}

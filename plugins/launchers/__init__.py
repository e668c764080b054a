"""Launchers: run the jobs of a comparison."""

from __future__ import annotations

from collections.abc import Mapping

from elbowroom import Kind, hookimpl

_HERE = "elbowroom.plugins.launchers"


@hookimpl
def kinds() -> list[Kind]:
    """Launchers."""
    return [Kind("launcher", "launchers", f"{_HERE}.launcher:Launcher", "Job launchers")]


@hookimpl
def launchers() -> Mapping[str, str]:
    """``local`` is the default."""
    return {"local": f"{_HERE}.local:Local"}

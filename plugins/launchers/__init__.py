"""Launchers: where the points of a comparison run."""

from __future__ import annotations

from collections.abc import Mapping

from elbowroom import hookimpl


@hookimpl
def launchers() -> Mapping[str, str]:
    """Name -> class, loaded when a comparison asks for it."""
    return {"local": "elbowroom.plugins.launchers.local:Local"}

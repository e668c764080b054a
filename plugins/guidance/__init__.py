"""Guidance: how samples are pushed towards their label."""

from __future__ import annotations

from elbowroom import hookimpl


@hookimpl
def guidances() -> dict[str, str]:
    """A number in a config means ``classifier-free`` of that scale."""
    return {"classifier-free": "elbowroom.objective.guidance:ClassifierFree"}

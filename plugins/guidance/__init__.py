"""Guidance: how samples are pushed towards their label, or away from a worse model."""

from __future__ import annotations

from elbowroom import hookimpl

_HERE = "elbowroom.plugins.guidance"


@hookimpl
def guidances() -> dict[str, str]:
    """A number in a config means ``classifier-free`` of that scale."""
    return {
        "classifier-free": "elbowroom.objective.classifier_free:ClassifierFree",
        "interval": f"{_HERE}.interval:Interval",
        "autoguidance": f"{_HERE}.autoguidance:Autoguidance",
    }

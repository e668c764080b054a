"""Evaluation: measurements of a model, each with its protocol; metrics and feature networks."""

from __future__ import annotations

from elbowroom import Kind, hookimpl

_HERE = "elbowroom.plugins.evaluation"


@hookimpl
def kinds() -> list[Kind]:
    """Metrics and feature networks."""
    return [
        Kind("metric", "metrics", f"{_HERE}.metric:Metric", "Metrics"),
        Kind(
            "feature_network",
            "feature_networks",
            f"{_HERE}.feature_network:FeatureNetwork",
            "Feature networks of sample metrics",
        ),
    ]


@hookimpl
def commands() -> dict[str, str]:
    """The command ``evaluate``."""
    return {"evaluate": f"{_HERE}.command:evaluate"}

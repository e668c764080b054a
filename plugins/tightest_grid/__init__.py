"""Metric ``curve``, the loss by noise level, and the sampling grid ``tightest`` made from it."""

from __future__ import annotations

from elbowroom import hookimpl

_HERE = "elbowroom.plugins.tightest_grid"


@hookimpl
def metrics() -> dict[str, str]:
    """Return the metric ``curve``."""
    return {"curve": f"{_HERE}.curve:Curve"}


@hookimpl
def grids() -> dict[str, str]:
    """Return the grid ``tightest``."""
    return {"tightest": f"{_HERE}.tightest:Tightest"}

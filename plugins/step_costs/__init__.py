"""What a sampler's steps cost: the metric ``curve``, and the grid ``tightest`` made from it."""

from __future__ import annotations

from elbowroom import hookimpl

_HERE = "elbowroom.plugins.step_costs"


@hookimpl
def metrics() -> dict[str, str]:
    """``curve``."""
    return {"curve": f"{_HERE}.curve:Curve"}


@hookimpl
def grids() -> dict[str, str]:
    """``tightest``."""
    return {"tightest": f"{_HERE}.tightest:Tightest"}

"""What a sampler's steps cost: the metric ``curve``; the grid and the weightings made from it."""

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


@hookimpl
def commands() -> dict[str, str]:
    """``cascade``."""
    return {"cascade": f"{_HERE}.command:cascade"}

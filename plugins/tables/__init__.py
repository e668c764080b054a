"""Tables: rows of a CSV or Parquet file as integers, and metrics of samples that are rows."""

from __future__ import annotations

from collections.abc import Mapping

from elbowroom import hookimpl

_HERE = "elbowroom.plugins.tables"


@hookimpl
def datasets() -> Mapping[str, str]:
    """Name -> class, loaded when a config names it."""
    return {"table": f"{_HERE}.dataset:Table"}


@hookimpl
def metrics() -> Mapping[str, str]:
    """Name -> class, loaded when an evaluation names it or its data are a table."""
    return {
        "table-controls": f"{_HERE}.row_metrics:Controls",
        "c2st": f"{_HERE}.row_metrics:C2ST",
        "utility": f"{_HERE}.row_metrics:Utility",
        "nearest": f"{_HERE}.row_metrics:Nearest",
    }


@hookimpl
def presets() -> dict[str, str]:
    """Configs shipped as package data."""
    return {name: f"{_HERE}:presets/{name}.yaml" for name in ("table", "adult", "magic")}

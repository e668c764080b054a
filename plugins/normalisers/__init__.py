"""Normalisers: what the summed losses of a batch are divided by."""

from __future__ import annotations

from elbowroom import hookimpl


@hookimpl
def normalisers() -> dict[str, str]:
    """``batch`` is what an objective has that names none."""
    return {
        "batch": "elbowroom.contracts.normaliser:BatchMean",
        "units": "elbowroom.plugins.normalisers.units:UnitMean",
    }

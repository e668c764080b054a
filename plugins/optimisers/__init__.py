"""Optimisers: AdamW for everything, or Muon for the matrices of hidden layers."""

from __future__ import annotations

from elbowroom import hookimpl

_HERE = "elbowroom.plugins.optimisers"


@hookimpl
def optimisers() -> dict[str, str]:
    """``adamw`` is what a run has that names none."""
    return {"adamw": f"{_HERE}.adamw:AdamW", "muon": f"{_HERE}.muon:Muon"}

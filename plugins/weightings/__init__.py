"""Weightings: those of the paper, the isotonic projection onto bounds, and learned ones."""

from __future__ import annotations

from elbowroom import hookimpl

_HERE = "elbowroom.plugins.weightings"


@hookimpl
def weightings() -> dict[str, str]:
    """``elbo`` is the default; each serves every process."""
    return {
        "elbo": f"{_HERE}.paper:Elbo",
        "edm": f"{_HERE}.paper:EDM",
        "iddpm": f"{_HERE}.paper:IDDPM",
        "sigmoid": f"{_HERE}.paper:Sigmoid",
        "fm": f"{_HERE}.paper:FlowMatching",
        "simple": f"{_HERE}.simple:Simple",
        "isotonic": f"{_HERE}.isotonic:Isotonic",
        "cascade": f"{_HERE}.cascade:Cascade",
        "balanced": f"{_HERE}.balanced:Balanced",
        "soft-min-snr": f"{_HERE}.soft_min_snr:SoftMinSNR",
        "positions": f"{_HERE}.positions:Positions",
        "uncertainty": f"{_HERE}.uncertainty:Uncertainty",
    }

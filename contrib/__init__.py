"""Components that few users need; they may lag behind core."""

from __future__ import annotations

from elbowroom import hookimpl

_HERE = "elbowroom.contrib"


@hookimpl
def processes() -> dict[str, str]:
    """``uniform``: corrupted tokens are uniform."""
    return {"uniform": f"{_HERE}.uniform:Uniform"}


@hookimpl
def samplers() -> dict[str, str]:
    """``psi``, for the process ``uniform``."""
    return {"psi": f"{_HERE}.psi:Psi"}


@hookimpl
def metrics() -> dict[str, str]:
    """``two-sided``: upper and lower bounds on a masked model's likelihood."""
    return {"two-sided": f"{_HERE}.two_sided:TwoSided"}

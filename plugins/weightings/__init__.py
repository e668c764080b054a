"""The paper's weightings, and the repair of any other."""

from __future__ import annotations

from elbowroom import hookimpl

_HERE = "elbowroom.plugins.weightings"


@hookimpl
def weightings() -> dict[str, str]:
    """The six of the paper, each one class for every process, and the isotonic repair."""
    return {
        "elbo": f"{_HERE}.paper:Elbo",
        "edm": f"{_HERE}.paper:EDM",
        "iddpm": f"{_HERE}.paper:IDDPM",
        "sigmoid": f"{_HERE}.paper:Sigmoid",
        "fm": f"{_HERE}.paper:FlowMatching",
        "simple": f"{_HERE}.simple:Simple",
        "isotonic": f"{_HERE}.isotonic:Isotonic",
    }

"""Samplers, grids and guidances."""

from __future__ import annotations

from elbowroom import hookimpl

_HERE = "elbowroom.plugins.samplers"


@hookimpl
def samplers() -> dict[str, str]:
    """One for every process, six for masked ones, three for Gaussian ones."""
    return {
        "ancestral": f"{_HERE}.ancestral:Ancestral",
        "first-hitting": f"{_HERE}.first_hitting:FirstHitting",
        "top-p": f"{_HERE}.top_p:TopP",
        "confidence": f"{_HERE}.confidence:Confidence",
        "scattered": f"{_HERE}.scattered:Scattered",
        "repaint": f"{_HERE}.repaint:RePaint",
        "remask": f"{_HERE}.remask:Remask",
        "corrected": f"{_HERE}.corrected:Corrected",
        "ddim": f"{_HERE}.ddim:DDIM",
        "heun": f"{_HERE}.heun:Heun",
        "multistep": f"{_HERE}.multistep:Multistep",
    }


@hookimpl
def grids() -> dict[str, str]:
    """Time grids; ``uniform`` is the default."""
    return {
        "uniform": "elbowroom.contracts.grid:EvenGrid",
        "cosine": f"{_HERE}.grid:CosineGrid",
        "log-snr": f"{_HERE}.grid:LogSNRGrid",
        "rho": f"{_HERE}.grid:RhoGrid",
    }


@hookimpl
def guidances() -> dict[str, str]:
    """A number in a config is the scale of ``classifier-free`` guidance."""
    return {
        "classifier-free": "elbowroom.objective.classifier_free:ClassifierFree",
        "interval": f"{_HERE}.interval:Interval",
        "autoguidance": f"{_HERE}.autoguidance:Autoguidance",
    }

"""Training: the loop, the section ``train``, optimisers and learning-rate schedules."""

from __future__ import annotations

from elbowroom import Kind, hookimpl

_HERE = "elbowroom.plugins.training"


@hookimpl
def kinds() -> list[Kind]:
    """Optimisers and rate schedules."""
    return [
        Kind("optimiser", "optimisers", f"{_HERE}.optimiser:Optimiser", "Optimisers"),
        Kind(
            "rate_schedule",
            "rate_schedules",
            f"{_HERE}.rate_schedule:RateSchedule",
            "Learning-rate schedules",
        ),
    ]


@hookimpl
def sections() -> dict[str, str]:
    """The section ``train``."""
    return {"train": f"{_HERE}.section:Train"}


@hookimpl
def commands() -> dict[str, str]:
    """The command ``train``."""
    return {"train": f"{_HERE}.command:train"}


@hookimpl
def optimisers() -> dict[str, str]:
    """``adamw`` is the default."""
    return {
        "adamw": f"{_HERE}.optimiser:AdamW",
        "muon": f"{_HERE}.muon:Muon",
    }


@hookimpl
def rate_schedules() -> dict[str, str]:
    """``cosine`` is the default."""
    return {
        "constant": f"{_HERE}.rate_schedule:Constant",
        "cosine": f"{_HERE}.rate_schedule:Cosine",
        "warmup-stable-decay": f"{_HERE}.rate_schedule:WarmupStableDecay",
    }


@hookimpl
def normalisers() -> dict[str, str]:
    """``batch`` is the default."""
    return {
        "batch": "elbowroom.contracts.normaliser:BatchMean",
        "units": f"{_HERE}.units:UnitMean",
    }

"""Time samplers: stratified (the default), independent, importance, adaptive."""

from __future__ import annotations

from elbowroom import hookimpl

_HERE = "elbowroom.plugins.time_samplers"


@hookimpl
def time_samplers() -> dict[str, str]:
    """``stratified`` is the default."""
    return {
        "stratified": f"{_HERE}.uniform:Stratified",
        "uniform": f"{_HERE}.uniform:Uniform",
        "importance": f"{_HERE}.importance:Importance",
        "adaptive": f"{_HERE}.adaptive:AdaptiveTimes",
        "information": f"{_HERE}.adaptive:InformationTimes",
        "logit-normal": f"{_HERE}.logit_normal:LogitNormal",
    }

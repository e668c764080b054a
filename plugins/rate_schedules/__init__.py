"""Rate schedules: how the learning rate goes on after the warm-up."""

from __future__ import annotations

from elbowroom import hookimpl

_HERE = "elbowroom.plugins.rate_schedules"


@hookimpl
def rate_schedules() -> dict[str, str]:
    """``cosine`` is what a run has that names none."""
    return {
        "cosine": f"{_HERE}.cosine:Cosine",
        "constant": f"{_HERE}.constant:Constant",
        "warmup-stable-decay": f"{_HERE}.warmup_stable_decay:WarmupStableDecay",
    }

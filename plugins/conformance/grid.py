"""Laws of a grid."""

from __future__ import annotations

import torch
from elbowroom import Grid, Schedule, installed

from .law import ensure, run


def check_grid(grid: Grid, schedule: Schedule | None = None) -> None:
    """Check the laws of a grid, over a schedule with finite ends (default: ``cosine``)."""
    run(grid, [_falls], grid, schedule or installed().find("schedule", "cosine").load()())


def _falls(grid: Grid, schedule: Schedule) -> None:
    """At most T + 1 times in float64, strictly falling, from exactly 1 to exactly 0."""
    for steps in (1, 2, 5, 64):
        t = grid.times(steps, schedule)
        right = t.ndim == 1 and 2 <= len(t) <= steps + 1
        ensure(right, f"{steps} steps have times of shape {tuple(t.shape)}.")
        ensure(t.dtype == torch.float64, f"times are {t.dtype}, not float64.")
        ensure(float(t[0]) == 1 and float(t[-1]) == 0, f"they run from {t[0]} to {t[-1]}.")
        ensure(t.diff() < 0, f"times of {steps} steps do not fall.")

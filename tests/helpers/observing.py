"""A run as observers are told of it, made up."""

from __future__ import annotations

from typing import Any

import attrs
import torch
from elbowroom import RunEvent

CONFIG = {"process": {"name": "masked"}, "train": {"steps": 4, "betas": [0.9, 0.99]}, "seed": 0}


def observe(plugin: Any, folder: Any, steps=(1, 2, 3), start=0, reason="finished") -> str | None:
    """Tell ``plugin`` of some logging steps, an evaluation and the end; what it says then."""
    begin = RunEvent(folder, start, 4, CONFIG)
    plugin.run_started(begin)
    x = torch.linspace(-3.0, 3.0, 7, dtype=torch.float64)
    for step in steps:
        scalars = {"loss": 10.0 / step, "learning_rate": 1e-3}
        curves = {"elbo_by_level": (x, (x + 4) * step)}
        plugin.step_logged(attrs.evolve(begin, step=step, scalars=scalars, curves=curves))
    picture = torch.arange(5 * 6 * 3, dtype=torch.uint8).reshape(5, 6, 3)
    measured = {"validation/bits_per_dim": 2.5}
    last = attrs.evolve(begin, step=steps[-1], scalars=measured)
    plugin.evaluated(attrs.evolve(last, images={"samples": picture}))
    return plugin.run_ended(attrs.evolve(last, reason=reason))

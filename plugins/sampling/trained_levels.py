"""Levels a network has been trained on: those between the ends of its schedule.

A network that is told the level has learned nothing beyond them. Sampling may lead there: by
another schedule than the training's, or by a sampler that brings levels of its own.
"""

from __future__ import annotations

import warnings

from elbowroom import Diffusion
from elbowroom.objective import ends_of

_NEAR = 1e-3  # of log-SNR


def warn_beyond(model: Diffusion) -> None:
    """Warn if the model's sampler asks its network about levels it was not trained on."""
    if model.sampler is None or not model.process.signature().needs_level:
        return
    asked = model.sampler.levels(model).log_snr
    asked = asked[asked.isfinite()]
    least, most = float(asked.min()), float(asked.max())
    low, high = model.trained_ends or ends_of(model.schedule)
    if least < low - _NEAR or most > high + _NEAR:
        warnings.warn(
            f"the sampler asks about log-SNR {least:.4g} to {most:.4g}, and the network was "
            f"trained on {low:.4g} to {high:.4g}: what it says beyond that was never learned",
            stacklevel=3,
        )

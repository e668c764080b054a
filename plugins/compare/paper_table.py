"""What the paper reports: quoted, never measured here.

Shi & Titsias, "Demystifying Diffusion Objectives: Reweighted Losses are Better Variational Bounds",
its table of FID (and Inception Score) on class-conditional ImageNet 64x64, 256 sampling steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

SETTING = "ImageNet 64x64, class-conditional, 256 steps, Inception features"

_OURS = {"fid": ("fid_reference", "fid_train"), "is": ("is",)}


def ours(groups: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """A column of the paper's table -> the measurement of ours beside it."""
    had = {name for group in groups for name in group["figures"]}
    return {key: next((n for n in names if n in had), names[-1]) for key, names in _OURS.items()}


@attrs.frozen
class Quoted:
    """One row of the paper's table."""

    process: str | None  # as a config names it; None: another kind of model
    model: str
    weighting: str | None
    fid: float
    inception_score: float | None = None


ROWS = (
    Quoted("masked", "masked 204M", "elbo", 6.84, 30.3),
    Quoted("masked", "masked 204M", "iddpm", 11.14, 22.9),
    Quoted("masked", "masked 204M", "edm", 4.42, 37.3),
    Quoted("masked", "masked 204M", "sigmoid", 3.91, 40.1),
    Quoted("masked", "masked 204M", "fm", 3.43, 43.3),
    Quoted("masked", "masked 204M", "simple", 2.96, 46.7),
    Quoted("masked", "masked 324M", "simple", 1.92, 57.9),
    Quoted("gaussian", "IDDPM", None, 2.92),
    Quoted("gaussian", "ADM", None, 2.07),
    Quoted("gaussian", "EDM", None, 1.36),
    Quoted("gaussian", "VDM++", None, 1.43, 63.7),
    Quoted(None, "MAR", None, 2.93),
    Quoted(None, "FractalMAR", None, 2.72),
)

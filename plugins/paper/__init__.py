"""The paper: its theorems checked exactly, its figures, its weightings judged, its presets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elbowroom import hookimpl

if TYPE_CHECKING:
    from elbowroom import Diffusion
    from elbowroom.config import Parts, Remark

_HERE = "elbowroom.plugins.paper"


@hookimpl
def commands() -> dict[str, str]:
    """What this plugin adds to the command line."""
    return {
        "theory": f"{_HERE}.theory_command:theory",
        "figures": f"{_HERE}.figures_command:figures",
        "weighting": f"{_HERE}.weighting_command:weighting",
    }


@hookimpl
def explain(parts: Parts) -> Remark:
    """Say whether the objective is a variational bound."""
    from .certificate import remark

    return remark(parts)


@hookimpl
def step_scalars(model: Diffusion) -> dict[str, float]:
    """The certificate of a weighting that changes during training."""
    from .certificate import current_certificate

    return current_certificate(model)


@hookimpl
def presets() -> dict[str, str]:
    """Configs shipped as package data."""
    return {name: f"{_HERE}:presets/{name}.yaml" for name in _PRESETS}


_PRESETS = (
    "adm-unet",
    "edm",
    "flow-matching",
    "iddpm",
    "imagenet64-204m",
    "imagenet64-324m",
    "masked-edm",
    "masked-elbo",
    "masked-fm",
    "masked-iddpm",
    "masked-image-model",
    "masked-sigmoid",
    "masked-simple",
    "md4",
    "vdm++",
)

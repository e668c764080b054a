"""Tiny models that say something, one on the CPU and the same one on the pretend accelerator."""

from __future__ import annotations

from typing import Any

import torch
from elbowroom.config.assembly import Parts, build_model, build_parts
from elbowroom.config.sections import Config, load_config
from elbowroom.objective.diffusion import Diffusion

from tests.helpers.pretend_accelerator import NAME

CPU, DEVICE = torch.device("cpu"), torch.device(NAME, 0)
PROCESSES: dict[str, Any] = {
    "masked": "masked",
    **{
        f"gaussian-{predict}": {"name": "gaussian", "predict": predict}
        for predict in ("eps", "x", "v", "flow", "edm", "levels")
    },
    "uniform": "uniform",
}


def config(process: str = "masked", **changes: Any) -> Config:
    """Digits of 4x4 pixels and a transformer of one block; ``a__b=c`` sets a.b."""
    tiny: dict[str, Any] = {
        "data": {"name": "digits", "size": 4, "levels": 5, "limit": 64},
        "process": PROCESSES[process],
        "weighting": "elbo",
        "denoiser": {
            "name": "dit",
            "positions": "rope",  # with others the gradient of a key's bias is rounding alone
            "width": 16,
            "depth": 1,
            "patch": 2,
            "dropout": 0.1,
            "null_class": True,
        },
        "sampler": {"name": "ancestral", "steps": 6},
        "train": {"steps": 4, "batch_size": 8, "warmup": 1, "log_every": 2, "save_every": 2},
    }
    return load_config(tiny, {key.replace("__", "."): value for key, value in changes.items()})


def model(parts: Parts, device: torch.device) -> Diffusion:
    """With weights that are not those of the start, where networks say nothing."""
    made = build_model(parts)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for p in made.parameters():
            p.add_(torch.randn(p.shape, generator=generator), alpha=0.3)
    return made.to(device)


def models(config: Config) -> tuple[Diffusion, Diffusion]:
    """The same model on the CPU and on the accelerator."""
    parts = build_parts(config)
    return model(parts, CPU).eval(), model(parts, DEVICE).eval()

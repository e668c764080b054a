"""A run small enough for tests: 4x4 digits, a transformer of a few thousand parameters."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from elbowroom import Level, Weighting
from elbowroom.config.sections import Config, load_config
from elbowroom.plugins.training.run import resume, train
from elbowroom.runs.checkpoint import Checkpoint, checkpoints
from torch import nn


class Learned(nn.Module, Weighting):
    """A weighting with parameters (uncertainty): w = exp(-u(lambda)), penalty proportional to u."""

    def __init__(self) -> None:
        super().__init__()
        self.u = nn.Parameter(torch.zeros(2))

    def _u(self, level: Level) -> torch.Tensor:
        return self.u[0] + self.u[1] * torch.tanh(level.log_snr / 10)

    def __call__(self, level: Level) -> torch.Tensor:
        return torch.exp(-self._u(level))

    def penalty(self, level: Level) -> torch.Tensor:
        return self._u(level) * 20


def tiny_config(process: str = "masked", seed: int = 0, **train: Any) -> Config:
    options = {
        "steps": 12,
        "batch_size": 8,
        "warmup": 2,
        "log_every": 3,
        "save_every": 4,
        "evaluate_every": None,
        "keep": 2,
    }
    return load_config(
        {
            "data": {"name": "digits", "size": 4, "levels": 5, "limit": 64},
            "process": process,
            "weighting": "simple",
            "denoiser": {"name": "dit", "width": 16, "depth": 1, "patch": 2, "dropout": 0.1},
            "sampler": {"name": "ancestral", "steps": 4},
            "train": options | train,
            "seed": seed,
        }
    )


def found(folder: Path) -> list[Checkpoint]:
    return checkpoints(folder / "checkpoints")


def tensors(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    """Everything in a checkpoint that must replay."""
    return {
        f"{part}/{name}": tensor
        for part in (file.removesuffix(".safetensors") for file in checkpoint.state.files)
        for name, tensor in checkpoint.read(part).items()
    }


def same(one: Checkpoint, other: Checkpoint) -> bool:
    """Are two checkpoints equal bit by bit?"""
    a, b = tensors(one), tensors(other)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def trained_and_cut(config: Config, folder: Path) -> tuple[Checkpoint, Checkpoint]:
    """The last checkpoints of a run in ``folder/whole`` and of one resumed from its first."""
    quiet = {"console", "tensorboard"}
    whole, cut = folder / "whole", folder / "cut"
    train(config, whole, without=quiet)
    shutil.copytree(whole, cut)
    for later in found(cut)[1:]:
        shutil.rmtree(later.path)
    resume(cut, without=quiet, trust=True)
    return found(whole)[-1], found(cut)[-1]


def curve(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The log without what depends on the clock."""
    clock = {"seconds", "images_per_second"}
    return [{key: value for key, value in row.items() if key not in clock} for row in rows]

"""The condition of a network: the class, and the level where it needs it.

    condition = class embedding [y]  +  MLP(features of lambda)

Data without labels have one class, i.e. one learned vector. With ``null_class`` the last row of the
embedding means "no label" (for guidance, Ho & Salimans 2021); label dropout in training replaces
some labels by it.

The features of the level are sines and cosines of lambda at frequencies from 1/32 to 8, which
distinguish levels across [-20, 20] to within a hundredth.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from elbowroom import ConfigError, ElbowroomError, Signature
from torch import Tensor, nn

from .layers import Embedding, Linear

Time = Literal["auto", "yes", "no"]


def uses_level(time: Time, signature: Signature) -> bool:
    """Whether lambda is an input of the network; ``auto``: if the process needs it."""
    if time not in ("auto", "yes", "no"):
        raise ConfigError(f"time: {time!r} is not one of 'auto', 'yes', 'no'")
    return signature.needs_level if time == "auto" else time == "yes"


def labels(cond: Tensor | None, classes: int | None, null_class: bool, z: Tensor) -> Tensor:
    """[B] the rows of the class embedding for a batch of z."""
    if classes is None:
        if cond is not None:
            raise ValueError("labels were given to a network without classes")
        return torch.zeros(len(z), dtype=torch.int64, device=z.device)
    if cond is not None:
        return cond
    if not null_class:
        raise ElbowroomError(
            f"a network with {classes} classes needs labels unless it has 'null_class: true'"
        )
    return torch.full((len(z),), classes, device=z.device)


class Condition(nn.Module):
    """cond, lambda -> [B, width]."""

    def __init__(self, signature: Signature, width: int, time: Time, null_class: bool) -> None:
        super().__init__()
        if null_class and signature.classes is None:
            raise ConfigError("null_class: true needs data with classes")
        self.classes, self.null_class = signature.classes, null_class
        self.label = Embedding((signature.classes or 1) + null_class, width)
        self.level = LevelEmbedding(width) if uses_level(time, signature) else None

    def forward(self, z: Tensor, log_snr: Tensor | None, cond: Tensor | None) -> Tensor:
        label: Tensor = self.label(labels(cond, self.classes, self.null_class, z))
        if self.level is None:
            return label
        if log_snr is None:
            raise ValueError("this network needs the level, but log_snr is None")
        if log_snr.ndim > 1:  # levels per position: that of the noisiest
            log_snr = log_snr.flatten(1).amin(1)
        level: Tensor = self.level(log_snr)
        return label + level


class LevelEmbedding(nn.Module):
    """lambda [B] -> [B, width]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.frequencies = max(1, width // 4)
        self.first = Linear(2 * self.frequencies, width)
        self.second = Linear(width, width)

    def forward(self, log_snr: Tensor) -> Tensor:
        rates = torch.logspace(-5, 3, self.frequencies, base=2, device=log_snr.device)
        angle = log_snr.to(rates.dtype)[:, None] * rates  # [B, width / 4]
        features = torch.cat([angle.sin(), angle.cos()], dim=1).to(self.first.weight.dtype)
        out: Tensor = self.second(F.silu(self.first(features)))
        return out

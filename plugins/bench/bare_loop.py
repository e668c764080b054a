"""A training loop as one would write it by hand: what the framework's own is measured against.

The same network, loss, optimiser and average of weights; no keyed noise, no checks, one batch that
is used again and again. Masked processes, and Gaussian ones that predict v or levels.
"""

from __future__ import annotations

import torch
from elbowroom import Batch, Dataset
from elbowroom.config import Parts, build_model
from torch import Tensor
from torch.nn import functional as F


def can_be_written_out(parts: Parts) -> bool:
    """Does the bare loop compute the loss of this process?"""
    says = getattr(parts.process, "predict", None)
    return "absorbing" in parts.process.traits or says in ("v", "levels")


class BareLoop:
    """What one would write by hand for this network: no framework, global randomness."""

    def __init__(self, parts: Parts, data: Dataset) -> None:
        model = build_model(parts)
        self.objective, self.network = model.objective, model.denoiser.train()
        options = parts.config.train
        self.optimiser = torch.optim.AdamW(
            self.network.parameters(),
            lr=options.learning_rate,
            betas=options.betas,
            weight_decay=options.weight_decay,
            fused=True,
        )
        self.average = [p.detach().clone() for p in self.network.parameters()]
        self.decay = options.ema
        self.levels = data.spec.levels
        self.batch: Batch = data.split("train").take(
            torch.arange(options.batch_size) % len(data.split("train"))
        )
        self.loss = self._masked if model.process.signature().in_states else self._gaussian

    def turn(self) -> None:
        t = (torch.rand(()) + torch.arange(len(self.batch.x)) / len(self.batch.x)) % 1
        loss = self.loss(self.batch.x, t, self.objective.plain_weight(t))
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad()
        parameters = [p.detach() for p in self.network.parameters()]
        torch._foreach_lerp_(self.average, parameters, 1 - self.decay)

    def _masked(self, x: Tensor, t: Tensor, weight: Tensor) -> Tensor:
        share = self.objective.schedule.log_snr(t).sigmoid()
        hidden = torch.rand(x.shape) >= share.reshape(-1, *(1,) * (x.ndim - 1))
        logits = self.network(torch.where(hidden, self.levels, x), None, self.batch.y)
        asked = torch.where(hidden, x, -100).flatten()
        each = F.cross_entropy(logits.flatten(0, -2), asked, reduction="none", ignore_index=-100)
        return (each.reshape(len(x), -1).sum(1) * weight).mean()

    def _gaussian(self, x: Tensor, t: Tensor, weight: Tensor) -> Tensor:
        log_snr = self.objective.schedule.log_snr(t)
        real = (2 * x.float() + 1) / self.levels - 1
        spread = (-1, *(1,) * (x.ndim - 1))
        a = log_snr.sigmoid().sqrt().reshape(spread)
        b = (-log_snr).sigmoid().sqrt().reshape(spread)
        eps = torch.randn_like(real)
        z = a * real + b * eps
        said = self.network(z, log_snr, self.batch.y)
        error: Tensor = (b * z + a * said if said.shape == z.shape else _eps(said, z, a, b)) - eps
        return ((error**2 / 2).reshape(len(x), -1).sum(1) * weight).mean()


def _eps(logits: Tensor, z: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The noise expected by a network that says how likely each of the V values is."""
    levels = logits.shape[-1]
    values = (2 * torch.arange(levels) + 1) / levels - 1
    distance = (z.unsqueeze(-1) - a.unsqueeze(-1) * values) ** 2
    x: Tensor = (logits - distance / (2 * b.unsqueeze(-1) ** 2)).softmax(-1) @ values
    return (z - a * x) / b

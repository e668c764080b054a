"""A bare training loop to compare with, and a network of no cost to time the rest of a step.

The bare loop has the same network, loss, optimiser and average of weights; no keyed noise, no
checks, one batch that is used again and again. It covers masked processes, and Gaussian ones that
predict v or levels.
"""

from __future__ import annotations

from typing import Any

import torch
from elbowroom import Batch, Dataset
from elbowroom.config import Parts, build_model
from torch import Tensor, nn
from torch.nn import functional as F


def has_bare_loop(parts: Parts) -> bool:
    """Does :class:`BareLoop` compute the loss of this process?"""
    return "absorbing" in parts.process.traits or getattr(parts.process, "predict", None) in (
        "v",
        "levels",
    )


class BareLoop:
    """A training loop as written by hand for one network: no framework, global random numbers."""

    def __init__(self, parts: Parts, data: Dataset) -> None:
        model = build_model(parts)
        self.objective = model.objective
        self.network = ReplayNetwork(model.denoiser.train())
        options = parts.config.train
        self.optimiser = torch.optim.AdamW(
            self.network.parameters(),
            lr=options.learning_rate,
            betas=options.betas,
            weight_decay=options.weight_decay,
            fused=True,
        )
        self.average = [p.detach().clone() for p in self.network.parameters()]
        self.decay, self.levels = options.ema, data.spec.levels
        split = data.split("train")
        self.batch: Batch = split.take(torch.arange(options.batch_size) % len(split))
        self.loss = self._masked if model.process.signature().in_states else self._gaussian

    def step(self) -> None:
        """Take one training step."""
        t = (torch.rand(()) + torch.arange(len(self.batch.x)) / len(self.batch.x)) % 1
        loss = self.loss(self.batch.x, t, self.objective.plain_weight(t))
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad()
        parameters = [p.detach() for p in self.network.parameters()]
        torch._foreach_lerp_(self.average, parameters, 1 - self.decay)

    def _masked(self, x: Tensor, t: Tensor, weight: Tensor) -> Tensor:
        share = self.objective.schedule.log_snr(t).sigmoid()
        masked = torch.rand(x.shape) >= share.reshape(-1, *(1,) * (x.ndim - 1))
        logits = self.network(torch.where(masked, self.levels, x), None, self.batch.y)
        target = torch.where(masked, x, -100).flatten()
        each = F.cross_entropy(logits.flatten(0, -2), target, reduction="none", ignore_index=-100)
        return (each.reshape(len(x), -1).sum(1) * weight).mean()

    def _gaussian(self, x: Tensor, t: Tensor, weight: Tensor) -> Tensor:
        log_snr = self.objective.schedule.log_snr(t)
        real = (2 * x.float() + 1) / self.levels - 1
        shape = (-1, *(1,) * (x.ndim - 1))
        a = log_snr.sigmoid().sqrt().reshape(shape)
        b = (-log_snr).sigmoid().sqrt().reshape(shape)
        eps = torch.randn_like(real)
        z = a * real + b * eps
        out = self.network(z, log_snr, self.batch.y)
        predicted = b * z + a * out if out.shape == z.shape else _eps(out, z, a, b)
        error: Tensor = predicted - eps
        return ((error**2 / 2).reshape(len(x), -1).sum(1) * weight).mean()


def _eps(logits: Tensor, z: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The noise expected under logits over the V values."""
    levels = logits.shape[-1]
    values = (2 * torch.arange(levels) + 1) / levels - 1
    distance = (z.unsqueeze(-1) - a.unsqueeze(-1) * values) ** 2
    x: Tensor = (logits - distance / (2 * b.unsqueeze(-1) ** 2)).softmax(-1) @ values
    return (z - a * x) / b


class ReplayNetwork(nn.Module):
    """A network that, while ``replay`` is set, returns its first output with zero gradients.

    The rest of a step takes milliseconds, less than the variation of the network's own time.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network, self.replay = network, False
        self.output: Tensor | None = None
        self.gradients: list[Tensor] = []

    def forward(self, *given: Any) -> Tensor:
        if self.replay and self.output is not None:
            replayed: Tensor = _Replay.apply(  # type: ignore[no-untyped-call]  # torch's
                self.output, self.gradients, *self.network.parameters()
            )
            return replayed
        output: Tensor = self.network(*given)
        if self.output is None:
            self.output = output.detach()
            self.gradients = [torch.zeros_like(p) for p in self.network.parameters()]
        return output


class _Replay(torch.autograd.Function):
    """A known output, as a function of all parameters."""

    @staticmethod
    def forward(ctx: Any, output: Tensor, gradients: list[Tensor], *_: Tensor) -> Tensor:
        ctx.gradients = gradients
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        # aliases: autograd takes over tensors without other references, and copies the others
        return None, None, *(gradient.detach() for gradient in ctx.gradients)

"""Masked diffusion (MD4, Shi et al. 2024): each token is kept with probability s, else masked.

    plain loss   cross-entropy of each masked token        price       s = sigmoid(lambda)
    step price   (a_s - a_t) / (1 - a_t), a = share        units       masked tokens
    prior        masked with probability 1 - a_1, else uniform over V:   KL  = N a_1 log V
    reconstruction   tokens still masked at t = 0, uniform:   N (1 - a_0) log V

so that a uniform baseline costs exactly log V per token, whatever the schedule's ends. Where
positions have different numbers of values, V is the position's own, and the logits of values that
a position cannot take are minus infinity.

Ancestral steps. When a token is unmasked does not depend on the logits: each token has two float64
uniforms for its whole trajectory. It is unmasked at the first level s with
U <= (a_s - a_1)/(1 - a_1); its value is the inverse CDF of the softmax there at u. So a trajectory
drawn step by step and one that skips steps without a change are the same.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import attrs
import torch
from elbowroom import (
    CategoricalPrediction,
    Level,
    Noise,
    Process,
    Signature,
    Step,
    draw_categorical,
)
from elbowroom.contracts import check_range
from torch import Tensor
from torch.nn import functional as F

_IGNORED = -100  # cross_entropy's ignore_index


@attrs.frozen
class Masked(Process):
    """Tokens are masked independently, all at the same rate.

    ``fill`` is how tokens still masked at the end of sampling are decoded: by the most likely value
    (as in MD4), or by a draw.
    """

    traits: ClassVar[frozenset[str]] = frozenset({"categorical", "absorbing"})
    natural_schedule: ClassVar[str] = "cosine"

    fill: Literal["argmax", "draw"] = "argmax"

    @property
    def mask(self) -> int:
        """The mask state: one past the last level."""
        return self.data.levels

    def signature(self) -> Signature:
        data, text = self.data, self.data.tokens is not None
        v = data.levels
        return Signature(
            data.shape, v + 1, v, data.classes, needs_level=False, text=text, sizes=data.sizes
        )

    def encode(self, x: Tensor) -> Tensor:
        check_range(x, self.data.counts())
        return x.long()

    def needs_final_prediction(self, z: Tensor) -> Tensor:
        return (z == self.mask).flatten(1).any(1)

    def decode(
        self, z: Tensor, prediction: CategoricalPrediction | None, level: Level, noise: Noise
    ) -> Tensor:
        if prediction is None:
            return z
        masked = (z == self.mask).nonzero(as_tuple=True)  # synchronises with the device
        logits = prediction.at(masked)
        if self.fill == "argmax":
            return z.index_put(masked, logits.argmax(-1))
        u = noise.uniform("value", self.data.shape)[masked]
        return z.index_put(masked, draw_categorical(logits, u))

    def prior(self, noise: Noise) -> Tensor:
        return torch.full((len(noise), *self.data.shape), self.mask, device=noise.device)

    def corrupt(self, x: Tensor, level: Level, noise: Noise) -> Tensor:
        share = level.aligned(x).share
        masked = noise.uniform("mask", x.shape[1:], torch.float32) >= share
        return torch.where(masked, self.mask, x)

    def log_likelihood(self, z: Tensor, x: Tensor, level: Level) -> Tensor:
        log_snr = level.aligned(x).log_snr
        kept, lost = F.logsigmoid(log_snr), F.logsigmoid(-log_snr)
        unmasked = torch.where(z == x, kept, -torch.inf)
        return torch.where(z == self.mask, lost, unmasked).flatten(1).sum(1)

    def price(self, log_snr: Tensor) -> Tensor:
        return log_snr.sigmoid()

    def step_price(self, log_snr: Tensor, to: Tensor) -> Tensor:
        # (a_s - a_t)/(1 - a_t) with a = sigmoid(lambda), free of cancellation
        return to.sigmoid() * -torch.expm1(log_snr - to)

    def read(self, output: Tensor, z: Tensor, level: Level) -> CategoricalPrediction:
        return CategoricalPrediction(self.data.possible(output))

    def plain_loss(
        self, x: Tensor, z: Tensor, prediction: CategoricalPrediction, level: Level
    ) -> Tensor:
        target = torch.where(z == self.mask, x, _IGNORED)
        logits = prediction.logits.reshape(-1, self.data.levels)
        loss = F.cross_entropy(
            logits.to(torch.promote_types(logits.dtype, torch.float32)),
            target.reshape(-1),
            reduction="none",
            ignore_index=_IGNORED,
        )
        return loss.reshape(x.shape)

    def units(self, z: Tensor) -> Tensor:
        return (z == self.mask).flatten(1).sum(1)

    def prior_kl(self, x: Tensor, level: Level) -> Tensor:
        return self._uniform_cost(x, level.aligned(x).share)

    def reconstruction(self, x: Tensor, level: Level, noise: Noise) -> Tensor:
        return self._uniform_cost(x, level.aligned(x).noise_share)

    def _uniform_cost(self, x: Tensor, probability: Tensor) -> Tensor:
        """[B] log V for each token, times the probability that it is predicted uniformly."""
        values = torch.as_tensor(self.data.counts(x.device))
        each = probability.double().expand(x.shape) * values.double().log()
        return each.flatten(1).sum(1)

    def reverse(
        self, z: Tensor, prediction: CategoricalPrediction, step: Step, noise: Noise
    ) -> Tensor:
        shape, step = self.data.shape, step.aligned(z)
        due = noise.uniform("reveal", shape) <= self._revealed_share(step.start, step.to)
        due = (z == self.mask) & due
        chosen = due.nonzero(as_tuple=True)  # synchronises with the device
        u = noise.uniform("value", shape)[chosen]
        return z.index_put(chosen, draw_categorical(prediction.at(chosen), u))

    def active_steps(self, levels: Level, noise: Noise, z: Tensor) -> Tensor:
        start = levels.select(slice(0, 1))
        done = self._revealed_share(start, levels.select(slice(1, None)))  # [T], rising
        done, moment = done.to(noise.device), noise.uniform("reveal", self.data.shape)  # [B, *D]
        if done.ndim == 1:
            when = torch.searchsorted(done, moment)
        else:  # [T, *D]
            when = sum((moment > one).long() for one in done)
        when = torch.where(z == self.mask, when, len(done))
        active = torch.zeros(len(noise), len(done) + 1, dtype=torch.bool, device=noise.device)
        return active.scatter_(1, when.flatten(1), True)[:, :-1]  # last: never unmasked

    def _revealed_share(self, start: Level, to: Level) -> Tensor:
        """(a_s - a_1)/(1 - a_1): the share of tokens unmasked between ``start`` and ``to``."""
        share = self.step_price(start.log_snr.double(), to.log_snr.double())
        return torch.where(to.log_snr == start.log_snr, 0.0, share)  # also where both are -inf

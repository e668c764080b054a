"""Masked diffusion (MD4, Shi et al. 2024): each token is kept with probability s, else hidden.

    plain loss   cross-entropy of each hidden token        price       s = sigmoid(lambda)
    step price   (a_s - a_t) / (1 - a_t), a = share        units       hidden tokens
    prior        hidden with probability 1 - a_1, else uniform over V:   KL  = N a_1 log V
    reconstruction   what is still hidden at t = 0, guessed uniformly:   N (1 - a_0) log V

so that a uniform baseline costs exactly log V per token, whatever the schedule's ends. Where
positions have different numbers of values, V is the position's own, and the logits of values that
a position cannot take are minus infinity.

Ancestral steps. Whether a token is revealed does not depend on the logits: each token has two
float64 uniforms for its whole path. U decides when (at the first level s with
U <= (a_s - a_1)/(1 - a_1)), u decides what, by the inverse CDF of the softmax at that moment. So
a path drawn step by step and one that jumps from reveal to reveal are the same path.
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

_NOT_ASKED = -100  # cross_entropy's way to say "no loss here"


@attrs.frozen
class Masked(Process):
    """Tokens become hidden, all at the same rate.

    ``fill`` says how tokens still hidden at the end of a sampler's path are decoded: by the most
    likely value (as MD4 does), or by a draw.
    """

    traits: ClassVar[frozenset[str]] = frozenset({"categorical", "absorbing"})
    natural_schedule: ClassVar[str] = "cosine"

    fill: Literal["argmax", "draw"] = "argmax"

    @property
    def mask(self) -> int:
        """The hidden state: one past the last level."""
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
        hidden = (z == self.mask).nonzero(as_tuple=True)  # an accelerator is waited for here
        logits = prediction.at(hidden)
        if self.fill == "argmax":
            return z.index_put(hidden, logits.argmax(-1))
        u = noise.uniform("value", self.data.shape)[hidden]
        return z.index_put(hidden, draw_categorical(logits, u))

    def prior(self, noise: Noise) -> Tensor:
        return torch.full((len(noise), *self.data.shape), self.mask, device=noise.device)

    def corrupt(self, x: Tensor, level: Level, noise: Noise) -> Tensor:
        share = level.aligned(x).share
        hidden = noise.uniform("mask", x.shape[1:], torch.float32) >= share
        return torch.where(hidden, self.mask, x)

    def log_likelihood(self, z: Tensor, x: Tensor, level: Level) -> Tensor:
        log_snr = level.aligned(x).log_snr
        kept, lost = F.logsigmoid(log_snr), F.logsigmoid(-log_snr)
        visible = torch.where(z == x, kept, -torch.inf)
        return torch.where(z == self.mask, lost, visible).flatten(1).sum(1)

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
        asked = torch.where(z == self.mask, x, _NOT_ASKED)
        logits = prediction.logits.reshape(-1, self.data.levels)
        loss = F.cross_entropy(
            logits.to(torch.promote_types(logits.dtype, torch.float32)),
            asked.reshape(-1),
            reduction="none",
            ignore_index=_NOT_ASKED,
        )
        return loss.reshape(x.shape)

    def units(self, z: Tensor) -> Tensor:
        return (z == self.mask).flatten(1).sum(1)

    def prior_kl(self, x: Tensor, level: Level) -> Tensor:
        return self._clueless(x, level.aligned(x).share)

    def reconstruction(self, x: Tensor, level: Level, noise: Noise) -> Tensor:
        return self._clueless(x, level.aligned(x).noise_share)

    def _clueless(self, x: Tensor, probability: Tensor) -> Tensor:
        """log V for each token that is in the wrong state with this probability, [B]."""
        values = torch.as_tensor(self.data.counts(x.device))
        each = probability.double().expand(x.shape) * values.double().log()
        return each.flatten(1).sum(1)

    def reverse(
        self, z: Tensor, prediction: CategoricalPrediction, step: Step, noise: Noise
    ) -> Tensor:
        shape, step = self.data.shape, step.aligned(z)
        due = noise.uniform("reveal", shape) <= self._revealed_share(step.start, step.to)
        chosen = ((z == self.mask) & due).nonzero(
            as_tuple=True
        )  # an accelerator is waited for here
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
        return active.scatter_(1, when.flatten(1), True)[:, :-1]  # last: never revealed

    def _revealed_share(self, start: Level, to: Level) -> Tensor:
        """(a_s - a_1)/(1 - a_1): the share of tokens revealed from ``start`` to ``to``."""
        share = self.step_price(start.log_snr.double(), to.log_snr.double())
        return torch.where(to.log_snr == start.log_snr, 0.0, share)  # also where both are -inf

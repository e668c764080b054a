"""Erasure: every token is kept with probability s = sigmoid(lambda), else erased.

    plain loss   -log p(x | z) of each erased token        price       s
    step price   (a_s - a_t) / (1 - a_t), a = share        units       erased tokens
    prior        erased with probability 1 - a_1, else uniform over V values:  KL = N a_1 log V
    reconstruction   what is erased at t = 0 is guessed uniformly:             N (1 - a_0) log V
    reverse      an erased token comes back with probability (a_s - a_t) / (1 - a_t), and its
                 value is then drawn from the prediction

This is a whole process, to be changed method by method; the laws to keep are those at the top of
elbowroom.process, and the conformance kit checks them.
"""

from __future__ import annotations

import math
from typing import ClassVar

import attrs
import torch
from elbowroom import CategoricalPrediction, Level, Noise, Process, Signature, Step
from elbowroom.categorical import draw_categorical
from elbowroom.process import check_range
from torch import Tensor
from torch.nn.functional import logsigmoid


@attrs.frozen
class OldProcess(Process):
    """Tokens are erased, all at the same rate."""

    traits: ClassVar[frozenset[str]] = frozenset({"categorical", "absorbing"})
    natural_schedule: ClassVar[str] = "cosine"

    @property
    def mask(self) -> int:
        """The erased state (what the trait ``absorbing`` promises): one past the last value."""
        return self.data.levels

    # -- the space z lives in

    def signature(self) -> Signature:
        v = self.data.levels
        return Signature(self.data.shape, v + 1, v, self.data.classes, needs_level=False)

    def encode(self, x: Tensor) -> Tensor:
        check_range(x, self.data.levels)
        return x.long()

    def needs_last_look(self, z: Tensor) -> Tensor:
        return (z == self.mask).flatten(1).any(1)

    def decode(
        self, z: Tensor, prediction: CategoricalPrediction | None, level: Level, noise: Noise
    ) -> Tensor:
        if prediction is None:
            return z
        return torch.where(z == self.mask, prediction.logits.argmax(-1), z)

    # -- forwards

    def prior(self, noise: Noise) -> Tensor:
        return torch.full((len(noise), *self.data.shape), self.mask, device=noise.device)

    def corrupt(self, x: Tensor, level: Level, noise: Noise) -> Tensor:
        erased = noise.uniform("erase", x.shape[1:], torch.float32) >= level.share
        return torch.where(erased, self.mask, x)

    def log_likelihood(self, z: Tensor, x: Tensor, level: Level) -> Tensor:
        kept = torch.where(z == x, logsigmoid(level.log_snr), -torch.inf)
        return torch.where(z == self.mask, logsigmoid(-level.log_snr), kept).flatten(1).sum(1)

    # -- the bound

    def price(self, log_snr: Tensor) -> Tensor:
        return log_snr.sigmoid()

    def step_price(self, log_snr: Tensor, to: Tensor) -> Tensor:
        return to.sigmoid() * -torch.expm1(log_snr - to)

    def read(self, output: Tensor, z: Tensor, level: Level) -> CategoricalPrediction:
        return CategoricalPrediction(output)

    def plain_loss(
        self, x: Tensor, z: Tensor, prediction: CategoricalPrediction, level: Level
    ) -> Tensor:
        said = -prediction.logits.log_softmax(-1).gather(-1, x.unsqueeze(-1)).squeeze(-1)
        return torch.where(z == self.mask, said, 0.0)

    def units(self, z: Tensor) -> Tensor:
        return (z == self.mask).flatten(1).sum(1)

    def prior_kl(self, x: Tensor, level: Level) -> Tensor:
        return self._uniform_guess(x, level.share)

    def reconstruction(self, x: Tensor, level: Level, noise: Noise) -> Tensor:
        return self._uniform_guess(x, level.noise_share)

    def _uniform_guess(self, x: Tensor, probability: Tensor) -> Tensor:
        """log V for each token, with this probability, [B]."""
        each = probability.double().expand(x.shape) * math.log(self.data.levels)
        return each.flatten(1).sum(1)

    # -- backwards

    def reverse(
        self, z: Tensor, prediction: CategoricalPrediction, step: Step, noise: Noise
    ) -> Tensor:
        shape, now = self.data.shape, noise.at(step.index)
        back = now.uniform("back", shape) <= self.step_price(step.level.log_snr, step.to.log_snr)
        chosen, z = (z == self.mask) & back, z.clone()
        z[chosen] = draw_categorical(prediction.at(chosen), now.uniform("value", shape)[chosen])
        return z

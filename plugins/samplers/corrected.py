"""Predictor and corrector for masked diffusion: ancestral steps with Gibbs steps between them.

Tokens unmasked in one step are drawn independently given z. A corrector restores their dependence
afterwards: it masks ``tokens`` of the unmasked ones, chosen at random, and draws them again,

    x_k ~ p(x_k | the other unmasked tokens),       ``corrections`` times after each step.

With one token at a time and an exact denoiser this is a Gibbs sampler of the unmasked tokens. The
set S of unmasked tokens stays the same, and their law q(x_S) is invariant, as is the marginal
q(z_t) at any level: the KL from this law does not rise, and vanishes with enough corrections.
Several tokens at a time are drawn from the product of their marginals, which biases towards a law
without their dependence.

References: Campbell et al. 2022, "A continuous time framework for discrete denoising models"; Zhao
et al. 2024, "Informed correctors for discrete diffusion models", with an informed choice of tokens.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import torch
from elbowroom import Level, Noise, Step, SteppingSampler, Trajectory, draw_categorical
from torch import Tensor

from .absorbing import NEEDS, mask_of, revealed_share, unmask


@attrs.frozen
class Corrected(SteppingSampler):
    """Ancestral steps, each followed by ``corrections`` that redraw ``tokens`` unmasked ones."""

    needs: ClassVar[frozenset[str]] = NEEDS

    corrections: int = attrs.field(default=1, validator=attrs.validators.ge(0))
    tokens: int = attrs.field(default=1, validator=attrs.validators.ge(1))

    def advance(self, path: Trajectory, z: Tensor, step: Step) -> Tensor:
        moment, u = (path.noise.uniform(label, z.shape[1:]) for label in ("reveal", "value"))
        revealed = revealed_share(path.process, step.start, step.to)
        due = (z == mask_of(path.process)) & (moment <= revealed)
        z = unmask(path, z, step.level, due, u)
        for k in range(self.corrections):
            noise = path.noise.at(1 + step.number * self.corrections + k)
            z = correct(path, z, step.to, noise, self.tokens)
        return z


def correct(path: Trajectory, z: Tensor, level: Level, noise: Noise, tokens: int) -> Tensor:
    """z with some unmasked tokens drawn again; tokens given at the start are kept."""
    mask, shape = mask_of(path.process), z.shape
    ours = ((z != mask) & (path.first == mask)).flatten(1)  # [B, N]
    order = noise.uniform("which", shape[1:]).flatten(1).masked_fill(~ours, torch.inf)
    chosen = order.topk(min(tokens, order.shape[1]), dim=1, largest=False).indices  # [B, m]
    before = z.flatten(1).gather(1, chosen)
    again = ours.gather(1, chosen)  # fewer than m may be unmasked
    masked = z.flatten(1).scatter(1, chosen, torch.where(again, mask, before)).reshape(shape)
    logits = path.predict(masked, level).logits.flatten(1, -2)  # [B, N, V]
    logits = logits.gather(1, chosen[..., None].expand(-1, -1, logits.shape[-1]))
    value = draw_categorical(logits, noise.uniform("again", shape[1:]).flatten(1).gather(1, chosen))
    drawn = torch.where(again, value, before)
    return z.flatten(1).scatter(1, chosen, drawn).reshape(shape)

"""Predictor and corrector for masked diffusion: ancestral steps, and Gibbs steps between them.

Tokens that appear in one step are drawn as if they did not see each other. A corrector mends that
afterwards: it hides ``tokens`` of the visible ones, chosen at random, and draws them again from
what the network says of them beside all others,

    x_k ~ p(x_k | the other visible tokens),        ``corrections`` times after each step.

With one token at a time and an exact denoiser this is a Gibbs sampler of the visible tokens: which
are visible stays as it is, and their law q(x_S) does not change by it, nor does the marginal q(z_t)
at any level. So a path that has this law keeps it, one that has another comes no further away from
it (its KL does not rise) and, with corrections enough, there. Several tokens at once are drawn from
the product of their marginals, and pull towards a law that lacks their dependence.

References: Campbell et al. 2022, "A continuous time framework for discrete denoising models"; Zhao
et al. 2024, "Informed correctors for discrete diffusion models", who choose tokens less blindly.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import torch
from elbowroom import Level, Noise, Step, SteppingSampler, Trajectory, draw_categorical
from torch import Tensor

from .absorbing import NEEDS, Marked, mask_of, revealed_share


@attrs.frozen
class Corrected(SteppingSampler):
    """Ancestral steps, each followed by ``corrections`` that draw ``tokens`` visible ones anew."""

    needs: ClassVar[frozenset[str]] = NEEDS

    corrections: int = attrs.field(default=1, validator=attrs.validators.ge(0))
    tokens: int = attrs.field(default=1, validator=attrs.validators.ge(1))

    def advance(self, path: Trajectory, z: Tensor, step: Step) -> Tensor:
        z = _predict(path, z, step)
        for k in range(self.corrections):
            noise = path.noise.at(1 + step.number * self.corrections + k)
            z = correct(path, z, step.to, noise, self.tokens)
        return z


def _predict(path: Trajectory, z: Tensor, step: Step) -> Tensor:
    """The ancestral step, asking about samples only in which a token appears."""
    shape = z.shape[1:]
    moment = path.noise.uniform("reveal", shape)
    revealed = revealed_share(path.process, step.start, step.to)
    due = Marked.of((z == mask_of(path.process)) & (moment <= revealed))
    if not len(due.rows):
        return z
    prediction = path.predict(z[due.rows], step.level, due.rows)
    value = path.noise.uniform("value", shape)[due.places]
    return z.index_put(due.places, draw_categorical(prediction.at(due.among_rows), value))


def correct(path: Trajectory, z: Tensor, level: Level, noise: Noise, tokens: int) -> Tensor:
    """Some visible tokens drawn anew from what the network says of them; those given stay."""
    mask, shape = mask_of(path.process), z.shape
    ours = ((z != mask) & (path.first == mask)).flatten(1)  # [B, N]
    order = noise.uniform("which", shape[1:]).flatten(1).masked_fill(~ours, torch.inf)
    chosen = order.topk(min(tokens, order.shape[1]), dim=1, largest=False).indices  # [B, m]
    before = z.flatten(1).gather(1, chosen)
    again = ours.gather(1, chosen)  # fewer than m may be visible
    seen = z.flatten(1).scatter(1, chosen, torch.where(again, mask, before)).reshape(shape)
    logits = path.predict(seen, level).logits.flatten(1, -2)  # [B, N, V]
    logits = logits.gather(1, chosen[..., None].expand(-1, -1, logits.shape[-1]))
    value = draw_categorical(logits, noise.uniform("again", shape[1:]).flatten(1).gather(1, chosen))
    drawn = torch.where(again, value, before)
    return z.flatten(1).scatter(1, chosen, drawn).reshape(shape)

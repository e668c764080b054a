"""Entropy-bounded unmasking (Ben-Hamu et al. 2025): as many tokens at once as are nearly sure.

Tokens revealed in one call are drawn as if they did not see each other. What that loses is their
total correlation, and with H_k the entropy of what the network says of each

    KL(their joint law || the product) <= sum over k of H_k - max over k of H_k.

So the hidden tokens of least entropy are revealed, as many as keep the right side below ``bound``
nats, and always one. Which ones depends on what is visible, never on what is drawn: with bound 0
and an exact denoiser this samples the data exactly, one token (or several that are certain) a call;
else the samples' KL from the data is at most bound times the number of calls. A trained network is
not exact, and asking it for the surest first is a choice of order that can help or harm.

There is no grid: the level a call is made at is that of the share of tokens that are visible.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import attrs
import torch
from elbowroom import (
    EvenGrid,
    Frame,
    Grid,
    Level,
    Model,
    Noise,
    Sampler,
    Trajectory,
    draw_categorical,
)
from torch import Tensor

from .absorbing import NEEDS, Marked, mask_of, visible_level


@attrs.frozen
class EntropyBounded(Sampler):
    """The surest tokens together, in at most ``steps`` calls; the last takes all that is left."""

    needs: ClassVar[frozenset[str]] = NEEDS

    bound: float = attrs.field(default=0.1, validator=attrs.validators.ge(0))  # nats a call
    grid: Grid = attrs.field(factory=EvenGrid, init=False)  # there is none to choose

    def frames(
        self, model: Model, noise: Noise, cond: Tensor | None = None, z: Tensor | None = None
    ) -> Iterator[Frame]:
        path, mask = self.path(model, noise, cond), mask_of(model.process)
        ends = Level.of(
            torch.tensor([1.0, 0.0], dtype=torch.float64), model.schedule, model.process
        )
        z = path.start(z)
        value = path.noise.uniform("value", z.shape[1:])  # [B, *D]
        yield Frame(z, 0)
        for i in range(self.steps):
            hidden = Marked.of(z == mask)  # an accelerator is waited for here
            if not len(hidden.rows):
                break
            most = torch.inf if i == self.steps - 1 else self.bound
            z = _reveal(path, z, hidden, value, most)
            yield Frame(z, i + 1)
        yield self.finish(path, z, ends)


def _reveal(path: Trajectory, z: Tensor, hidden: Marked, value: Tensor, most: float) -> Tensor:
    """z after one call, the surest of its hidden tokens drawn."""
    part, tokens = z[hidden.rows], hidden.among_rows
    prediction = path.predict(part, visible_level(path, part), hidden.rows)
    logits = prediction.at(tokens).double()  # [K, V]
    say = logits.log_softmax(-1)
    entropy = torch.full(part.shape, torch.inf, dtype=torch.float64, device=z.device)
    entropy = entropy.index_put(tokens, -(say.exp() * say).nan_to_num().sum(-1))
    due = surest(entropy.flatten(1), most).reshape(part.shape)
    drawn = part.index_put(tokens, draw_categorical(logits, value[hidden.places]))
    return z.index_copy(0, hidden.rows, torch.where(due, drawn, part))


def surest(entropy: Tensor, most: float) -> Tensor:
    """[B, N] the tokens of least entropy whose sum, the largest left out, is at most ``most``.

    Infinite entropies are those of tokens that are not asked for.
    """
    rising, order = entropy.sort(1)
    before = torch.nn.functional.pad(rising.cumsum(1), (1, -1))  # of those that come before
    chosen = (before <= most) & rising.isfinite()
    return torch.zeros_like(chosen).scatter(1, order, chosen)

"""Unmasking without a grid: what is visible decides what appears next.

Each call asks about all hidden tokens, at the level of the share that is visible, and a rule says
which of them appear: it sees what the network says of each, never what is drawn. All of those are
drawn at once. The last of ``steps`` calls takes all that is left.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar

import attrs
import torch
from elbowroom import EvenGrid, Frame, Grid, Level, Model, Noise, Sampler, draw_categorical
from torch import Tensor

from .absorbing import NEEDS, Marked, mask_of, visible_level

Rule = Callable[[Marked, Tensor, torch.Size], Tensor]
"""(hidden tokens, the log-probabilities [K, V] of each, the shape [R, *D] of the samples that have
some) -> which tokens [R, *D] appear"""


@attrs.frozen
class Unmasking(Sampler):
    """Hidden tokens appear by a rule, in at most ``steps`` calls."""

    needs: ClassVar[frozenset[str]] = NEEDS

    grid: Grid = attrs.field(factory=EvenGrid, init=False)  # there is none to choose

    @abstractmethod
    def rule(self, z: Tensor) -> Rule:
        """The rule for one path, which begins at z."""

    def frames(
        self, model: Model, noise: Noise, cond: Tensor | None = None, z: Tensor | None = None
    ) -> Iterator[Frame]:
        path, mask = self.path(model, noise, cond), mask_of(model.process)
        ends = Level.of(
            torch.tensor([1.0, 0.0], dtype=torch.float64), model.schedule, model.process
        )
        z = path.start(z)
        value, rule = path.noise.uniform("value", z.shape[1:]), self.rule(z)
        yield Frame(z, 0)
        for i in range(self.steps):
            hidden = Marked.of(z == mask)  # an accelerator is waited for here
            if not len(hidden.rows):
                break
            part, tokens = z[hidden.rows], hidden.among_rows
            prediction = path.predict(part, visible_level(path, part), hidden.rows)
            logits = prediction.at(tokens).double()  # [K, V]
            appear = rule(hidden, logits.log_softmax(-1), part.shape)  # [R, *D]
            due = part == mask if i == self.steps - 1 else appear
            drawn = part.index_put(tokens, draw_categorical(logits, value[hidden.places]))
            z = z.index_copy(0, hidden.rows, torch.where(due, drawn, part))
            yield Frame(z, i + 1)
        yield self.finish(path, z, ends)


def spread(values: Tensor, hidden: Marked, shape: torch.Size, elsewhere: float) -> Tensor:
    """Values [K] of the hidden tokens where these are in [R, *D]."""
    whole = torch.full(shape, elsewhere, dtype=values.dtype, device=values.device)
    return whole.index_put(hidden.among_rows, values)

"""Confidence sampling (MaskGIT, Chang et al. 2022): the surest tokens first.

At each step every hidden token draws a candidate; the candidates with the highest

    log p(candidate) + temperature (1 - progress) Gumbel noise

stay, as many as the schedule's hidden share asks for, and the others are hidden again. Fast and
sharp, but no sampler of the model's distribution: which token stays depends on what it drew. At a
high temperature the order is random and the bias is gone.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import torch
from elbowroom import (
    CategoricalPrediction,
    Step,
    SteppingSampler,
    Trajectory,
    broadcast_over,
    draw_categorical,
)
from torch import Tensor

from .absorbing import NEEDS, Marked, mask_of, stay_hidden


@attrs.frozen
class Confidence(SteppingSampler):
    """Reveal what the network is sure of; few steps are enough."""

    needs: ClassVar[frozenset[str]] = NEEDS

    temperature: float = attrs.field(default=4.5, validator=attrs.validators.ge(0))

    def advance(self, path: Trajectory, z: Tensor, step: Step) -> Tensor:
        hidden, i = z == mask_of(path.process), step.number
        stays = stay_hidden(path, step, hidden, last=step.progress == 1)
        reveals = hidden.flatten(1).sum(1) - stays  # [B]
        asked = Marked.of(hidden & broadcast_over(reveals > 0, z))
        rows = asked.rows
        if not len(rows):
            return z

        part, tokens = z[rows], asked.among_rows
        prediction: CategoricalPrediction = path.predict(part, step.level, rows)
        logits = prediction.at(tokens).double()  # [K, V]
        noise = path.noise.select(rows).at(i)
        u, g = (noise.uniform(label, part.shape[1:])[tokens] for label in ("value", "gumbel"))
        candidate = draw_categorical(logits, u)
        sure = logits.log_softmax(-1).gather(-1, candidate[:, None]).squeeze(1)
        heat = self.temperature * (1 - step.progress)
        sure = sure - heat * (-g.log()).log()

        score = torch.full(part.shape, -torch.inf, dtype=torch.float64, device=z.device)
        score = score.index_put(tokens, sure).flatten(1)  # [R, N]
        rank = score.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
        chosen = (rank < reveals[rows, None]).reshape(part.shape) & hidden[rows]
        moved = torch.where(chosen, part.index_put(tokens, candidate), part)
        return z.index_copy(0, rows, moved)

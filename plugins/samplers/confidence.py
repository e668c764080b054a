"""Confidence sampling (MaskGIT, Chang et al. 2022): the most confident tokens first.

At each step a candidate is drawn for every masked token. The candidates with the highest

    log p(candidate) + temperature (1 - progress) Gumbel noise

are kept, as many as the schedule unmasks in this step. Fast and sharp, but biased: which token is
kept depends on its candidate. At a high temperature the order is random and the bias vanishes.
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
    draw_categorical,
)
from elbowroom.contracts import broadcast_over
from torch import Tensor

from .absorbing import NEEDS, Marked, mask_of, unmask_counts


@attrs.frozen
class Confidence(SteppingSampler):
    """Unmask the most confident predictions first; for few steps."""

    needs: ClassVar[frozenset[str]] = NEEDS

    temperature: float = attrs.field(default=4.5, validator=attrs.validators.ge(0))

    def advance(self, path: Trajectory, z: Tensor, step: Step) -> Tensor:
        masked = z == mask_of(path.process)
        count = unmask_counts(path, step, masked)  # [B]
        predicted = Marked.of(masked & broadcast_over(count > 0, z))
        rows, tokens = predicted.rows, predicted.among_rows
        if not len(rows):
            return z

        part = z[rows]
        prediction: CategoricalPrediction = path.predict(part, step.level, rows)
        logits = prediction.at(tokens).double()  # [K, V]
        noise = path.noise.select(rows).at(step.number)
        u, g = (noise.uniform(label, part.shape[1:])[tokens] for label in ("value", "gumbel"))
        candidate = draw_categorical(logits, u)
        confidence = logits.log_softmax(-1).gather(-1, candidate[:, None]).squeeze(1)
        confidence = confidence - self.temperature * (1 - step.progress) * (-g.log()).log()

        score = torch.full(part.shape, -torch.inf, dtype=torch.float64, device=z.device)
        score = score.index_put(tokens, confidence).flatten(1)  # [R, N]
        rank = score.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
        chosen = (rank < count[rows, None]).reshape(part.shape) & masked[rows]
        moved = torch.where(chosen, part.index_put(tokens, candidate), part)
        return z.index_copy(0, rows, moved)

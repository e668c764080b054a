"""Path planning (P2, Peng et al. 2025), by the network's own judgement.

At each step every hidden token draws a candidate, so that every token has a value x_k, and all of
them, visible ones too, are ranked by what the network says of that value:

    hidden    log p(x_k | z)            visible    eta log p(x_k | z).

As many as the schedule asks for are visible after the step, the highest ranked ones: a candidate
that is doubted is not taken, and a visible token that is doubted now is hidden again. With ``eta``
0 none is, which is ``confidence`` at temperature 0; the larger eta, the more are.

No sampler of the model's distribution, as ``confidence`` is none: what stays depends on what was
drawn. It also asks the network about tokens it can see. A masked model is not trained to answer
that, and an exact denoiser answers 1: then nothing is hidden again, whatever eta.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import torch
from elbowroom import CategoricalPrediction, Step, SteppingSampler, Trajectory, draw_categorical
from torch import Tensor

from .absorbing import NEEDS, Marked, mask_of, stay_hidden


@attrs.frozen
class Planned(SteppingSampler):
    """Unmask what the network is sure of, and hide again what it doubts."""

    needs: ClassVar[frozenset[str]] = NEEDS

    eta: float = attrs.field(default=1.0, validator=attrs.validators.ge(0))

    def advance(self, path: Trajectory, z: Tensor, step: Step) -> Tensor:
        mask, i = mask_of(path.process), step.number
        hidden = z == mask
        prediction: CategoricalPrediction = path.predict(z, step.level)
        asked = Marked.of(hidden).places
        u = path.noise.at(i).uniform("value", z.shape[1:])[asked]
        x = z.index_put(asked, draw_categorical(prediction.at(asked), u))  # [B, *D]
        score = self._score(prediction, x, hidden).masked_fill(path.first != mask, torch.inf)
        visible = score[0].numel() - stay_hidden(path, step, hidden, last=step.progress == 1)
        return torch.where(highest(score, hidden, visible), x, mask)

    def _score(self, prediction: CategoricalPrediction, x: Tensor, hidden: Tensor) -> Tensor:
        """[B, *D] what the network thinks of each token's value."""
        say = prediction.logits.double().log_softmax(-1).gather(-1, x.unsqueeze(-1)).squeeze(-1)
        say = say.clamp(min=torch.finfo(say.dtype).min)  # 0 times it shall be 0
        return torch.where(hidden, say, self.eta * say)


def highest(score: Tensor, hidden: Tensor, count: Tensor) -> Tensor:
    """[B, *D] the ``count`` [B] tokens of the highest scores; of equal ones those not hidden."""
    visible_first = hidden.flatten(1).long().argsort(dim=1, stable=True)
    falling = score.flatten(1).gather(1, visible_first).argsort(dim=1, descending=True, stable=True)
    rank = visible_first.gather(1, falling).argsort(dim=1)
    return (rank < count[:, None]).reshape(score.shape)

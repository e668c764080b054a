"""Ancestral sampling from the nucleus (Holtzman et al. 2020): the smallest set of values whose
probabilities sum to at least p.

Values are kept from the most likely down, as long as the values before sum to less than p. Ties
with the last one kept are kept too, so that the order of the vocabulary does not matter. p = 1
keeps everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import attrs
import torch
from elbowroom import (
    CategoricalPrediction,
    Frame,
    Guidance,
    Level,
    Model,
    Noise,
    Path,
    Process,
    Sampler,
    Schedule,
)
from elbowroom.contracts import Given
from torch import Tensor

from .absorbing import NEEDS
from .ancestral import Ancestral


@attrs.frozen
class TopP(Sampler):
    """Ancestral steps with values from the nucleus only."""

    needs: ClassVar[frozenset[str]] = NEEDS
    along_paths: ClassVar[bool] = True

    p: float = attrs.field(default=0.98, validator=[attrs.validators.gt(0), attrs.validators.le(1)])
    skip: bool = True

    def frames(
        self, model: Model, noise: Noise, cond: Tensor | None = None, z: Tensor | None = None
    ) -> Iterator[Frame]:
        steps = Ancestral(self.steps, self.grid, self.skip, guidance=self.guidance)
        return steps.frames(NucleusModel(model, self.p), noise, cond, z)


@attrs.frozen(eq=False)
class NucleusModel:
    """A model whose predictions are truncated to the nucleus."""

    model: Model
    p: float

    @property
    def process(self) -> Process:
        """The model's."""
        return self.model.process

    @property
    def schedule(self) -> Schedule:
        """The model's."""
        return self.model.schedule

    @property
    def path(self) -> Path | None:
        """The model's."""
        return getattr(self.model, "path", None)

    @property
    def known(self) -> Given | None:
        """The model's."""
        return getattr(self.model, "known", None)

    def guided(self, guidance: float | Guidance) -> NucleusModel:
        """Guidance is applied before truncation."""
        return NucleusModel(self.model.guided(guidance), self.p)

    def predict(self, z: Tensor, level: Level, cond: Tensor | None) -> NucleusPrediction:
        """The model's prediction, truncated where it is read."""
        return NucleusPrediction(self.model.predict(z, level, cond).logits, self.p)


@attrs.frozen(eq=False)
class NucleusPrediction(CategoricalPrediction):
    """Logits of the nucleus, computed only at the positions that are read."""

    p: float

    def at(self, where: Tensor | tuple[Tensor, ...]) -> Tensor:
        return nucleus(self.logits[where], self.p)


def nucleus(logits: Tensor, p: float) -> Tensor:
    """``logits`` [..., V] with minus infinity outside the nucleus."""
    ordered = logits.double().sort(-1, descending=True).values
    chance = ordered.softmax(-1)
    before = chance.cumsum(-1) - chance  # probability of all more likely values
    last = (before < p).sum(-1, keepdim=True) - 1  # the first is always kept
    cut = ordered.gather(-1, last.clamp(min=0))
    return logits.double().masked_fill(logits < cut, -torch.inf)

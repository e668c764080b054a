"""Psi-samplers (Deschenaux et al. 2026) for uniform-state diffusion.

In a step from t to s each token either takes the reverse step of the process or, with probability
``eta``, is predicted and corrupted again:

    (1 - eta) sum_x p(x | z_t) q(z_s | z_t, x)  +  eta sum_x p(x | z_t) q(z_s | x).

With p(x | z_t) exact both parts map q(z_t) to q(z_s), so for any eta, any grid and data of
independent tokens the marginal of every level is exact. Dependent tokens are drawn independently,
in the second part all that are chosen: that bias is of the order of eta squared in each step, and
in exchange errors of earlier steps are corrected. eta = 0 is ancestral sampling, with the same
samples.

For a masked process the same kernel is ``remask`` with ``sigma: psi``: an unmasked token is known,
so predicting and corrupting it masks it with probability eta (1 - a_s).
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import torch
from elbowroom import CategoricalPrediction, Step, SteppingSampler, Trajectory, draw_categorical
from torch import Tensor


@attrs.frozen
class Psi(SteppingSampler):
    """Reverse steps in which some tokens are predicted and corrupted again."""

    needs: ClassVar[frozenset[str]] = frozenset({"categorical", "uniform"})

    eta: float = attrs.field(
        default=0.05,
        validator=attrs.validators.and_(attrs.validators.ge(0.0), attrs.validators.le(1.0)),
    )

    def advance(self, path: Trajectory, z: Tensor, step: Step) -> Tensor:
        step = attrs.evolve(step, level=step.level.over(z), to=step.to.over(z))
        prediction: CategoricalPrediction = path.predict(z, step.level)
        moved = path.process.reverse(z, prediction, step, path.noise)
        if self.eta == 0:
            return moved
        noise = path.noise.at(step.number)
        guess = draw_categorical(prediction.logits, noise.uniform("guess", z.shape[1:]))
        anew = path.process.corrupt(guess, step.to, noise)
        return torch.where(noise.uniform("psi", z.shape[1:]) < self.eta, anew, moved)

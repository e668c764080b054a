"""Heun's method (EDM, Karras et al. 2022): second order in sigma, with optional fresh noise.

In y = z/a with sigma = b/a = e^(-lambda/2), the ODE is dy/dsigma = eps_hat(y, sigma):

    y'  = y + (sigma_s - sigma_t) eps_hat(y, sigma_t)
    y_s = y + (sigma_s - sigma_t) (eps_hat(y, sigma_t) + eps_hat(y', sigma_s)) / 2

Churn raises the noise before each step, sigma <- sigma (1 + gamma), gamma = min(churn/steps, sqrt 2
- 1) where ``churn_min`` <= sigma <= ``churn_max``. Like every Gaussian trajectory it ends with the
predicted data at the last level, which is Euler's step to sigma = 0. As in the paper this is one of
the ``steps``: they take 2 steps - 1 calls, on a grid of ``steps`` levels.
"""

from __future__ import annotations

import math
from typing import ClassVar

import attrs
import torch
from elbowroom import Grid, Level, Model, RealPrediction, Step, SteppingSampler, Trajectory
from torch import Tensor

from .grid import RhoGrid

_not_negative = attrs.validators.ge(0.0)


@attrs.frozen
class Heun(SteppingSampler):
    """Second-order steps, by default on EDM's grid."""

    needs: ClassVar[frozenset[str]] = frozenset({"real"})

    steps: int = attrs.field(default=256, validator=attrs.validators.ge(2))
    grid: Grid = attrs.field(
        factory=RhoGrid, validator=attrs.fields(SteppingSampler).grid.validator
    )
    churn: float = attrs.field(default=0.0, validator=_not_negative)
    churn_min: float = attrs.field(default=0.0, validator=_not_negative)
    churn_max: float | None = attrs.field(  # None: no upper end
        default=None, validator=attrs.validators.optional(_not_negative)
    )
    churn_noise: float = attrs.field(default=1.0, validator=_not_negative)

    def levels(self, model: Model) -> Level:
        """One for each step; the last step goes to sigma = 0."""
        t = self.grid.times(self.steps - 1, model.schedule)
        return Level.of(t, model.schedule, model.process)

    def advance(self, path: Trajectory, z: Tensor, step: Step) -> Tensor:
        y, level = self._churned(path, z.double() / step.level.share.sqrt(), step)
        a_t, a_s = level.share.sqrt(), step.to.share.sqrt()
        away = _sigma(step.to) - _sigma(level)
        here = self._slope(path, (a_t * y).to(z.dtype), level)
        guess = a_s * (y + away * here)
        there = self._slope(path, guess.to(z.dtype), step.to)
        return (a_s * (y + away * ((here + there) / 2))).to(z.dtype)

    def _slope(self, path: Trajectory, z: Tensor, level: Level) -> Tensor:
        """dy/dsigma."""
        prediction: RealPrediction = path.predict(z, level)
        return prediction.eps.double()

    def _churned(self, path: Trajectory, y: Tensor, step: Step) -> tuple[Tensor, Level]:
        """y and its level after churn."""
        assert step.count is not None, "all samples are at the same step"
        gamma = min(self.churn / (step.count + 1), math.sqrt(2) - 1)  # with the last, to sigma = 0
        sigma = _sigma(step.level)
        most = math.inf if self.churn_max is None else self.churn_max
        inside = (sigma >= self.churn_min) & (sigma <= most)
        if not gamma or not bool(inside.any()):
            return y, step.level
        raised = torch.where(inside, sigma * (1 + gamma), sigma)
        eps = path.noise.at(step.index).normal("churn", y.shape[1:], y.dtype)
        y = y + (raised**2 - sigma**2).sqrt() * self.churn_noise * eps
        return y, Level.at(-2 * raised.log(), path.process)


def _sigma(level: Level) -> Tensor:
    """Noise over signal, e^(-lambda/2)."""
    return (-level.log_snr / 2).exp()

"""Multistep (DPM-Solver++(2M), Lu et al. 2022): second order for one call a step.

With h half the rise of lambda in a step, and x' the prediction of the previous step of half rise
h',

    z_s = (b_s/b_t) z_t + a_s [(1 - e^-h) x_hat + (h - 1 + e^-h) (x_hat - x')/h']

solves the ODE with x_hat extrapolated linearly in lambda (the paper has h/2 (1 - e^-h) as the
second factor, which is the same for small h; diffusers has both, as ``solver_type`` heun and
midpoint). The first step has no x' and holds x_hat constant.

``begin`` and ``end`` are the lambdas at which the trajectory begins and ends, by default the
schedule's ends. At high noise z carries little information about the data, at low noise each
element determines its own value; few calls are better spent between. A trajectory that begins later
takes the prior's noise for z there. One that ends earlier rounds the predicted data to the nearest
values or, with ``draw``, draws each element from its predicted distribution (``predict: levels``),
independently given z.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

import attrs
import torch
from attrs.validators import gt, lt
from elbowroom import (
    Frame,
    Grid,
    IncompatibleError,
    Level,
    Model,
    Noise,
    RealPrediction,
    Sampler,
    Step,
)
from torch import Tensor

from .grid import LogSNRGrid
from .part_of_schedule import PartOfSchedule

_finite = attrs.validators.optional(attrs.validators.and_(gt(-math.inf), lt(math.inf)))


@attrs.frozen
class Multistep(Sampler):
    """Steps that use the previous prediction, by default on a grid even in lambda."""

    needs: ClassVar[frozenset[str]] = frozenset({"real"})

    grid: Grid = attrs.field(factory=LogSNRGrid, validator=attrs.fields(Sampler).grid.validator)
    begin: float | None = attrs.field(default=None, validator=_finite)
    end: float | None = attrs.field(default=None, validator=_finite)
    draw: bool = False
    clip: bool = attrs.field(default=False, kw_only=True)

    def levels(self, model: Model) -> Level:
        part = PartOfSchedule.of(model.schedule, self.begin, self.end)
        t = part.in_whole(self.grid.times(self.steps, part))
        return Level.of(t, model.schedule, model.process)

    def count_steps(self, model: Model) -> int:
        return len(self.levels(model).log_snr) - 1

    def frames(
        self, model: Model, noise: Noise, cond: Tensor | None = None, z: Tensor | None = None
    ) -> Iterator[Frame]:
        if self.draw and model.process.signature().out_states is None:
            raise _nothing_to_draw_from()
        path, levels = self.path(model, noise, cond), self.levels(model)
        z = path.start(z)
        yield Frame(z, 0)
        one_by_one = levels.unbind()
        before = None
        for i in range(len(one_by_one) - 1):
            step = path.shared_step(one_by_one, i)
            prediction: RealPrediction = path.predict(z, step.level)
            if self.draw and prediction.draw is None:
                raise _nothing_to_draw_from()
            x = (path.process.clip_prediction(prediction) if self.clip else prediction).x
            z = _moved(z, x, before, step).to(z.dtype)
            before = (x, step)
            yield Frame(z, i + 1)
        yield self.finish(path, z, levels)

    def final_prediction(self, prediction: RealPrediction, noise: Noise) -> RealPrediction:
        if not self.draw:
            return prediction
        if prediction.draw is None:
            raise _nothing_to_draw_from()
        u = noise.uniform("value", prediction.z.shape[1:])
        return RealPrediction(prediction.z, prediction.level, given_x=prediction.draw(u))


def _moved(z: Tensor, x: Tensor, before: tuple[Tensor, Step] | None, step: Step) -> Tensor:
    """z after a step, from the prediction x and the previous prediction with its step."""
    h = _half_rise(step)
    less_noise = (step.to.noise_share / step.level.noise_share).sqrt()
    signal = step.to.share.sqrt()
    moved = less_noise.to(z.dtype) * z - (signal * torch.expm1(-h)).to(z.dtype) * x
    if before is None:
        return moved
    x_before, step_before = before
    slope = signal * (h + torch.expm1(-h)) / _half_rise(step_before)
    return moved + slope.to(z.dtype) * (x - x_before)


def _half_rise(step: Step) -> Tensor:
    """h: log(a/b) is lambda/2."""
    return (step.to.log_snr - step.level.log_snr) / 2


def _nothing_to_draw_from() -> IncompatibleError:
    return IncompatibleError(
        "sampler multistep: draw: true needs a network that predicts the distribution of each "
        "element (process: {name: gaussian, predict: levels}). This one predicts its mean only; "
        "set draw: false"
    )

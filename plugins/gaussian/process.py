"""Gaussian diffusion (VDM, Kingma et al. 2021), variance preserving in lambda.

    z = a x + b eps,  a^2 = share, b^2 = 1 - share         price       1
    plain loss   (eps - eps_hat)^2 / 2 = e^lambda (x - x_hat)^2 / 2
    step price   expm1(lambda_s - lambda_t), i.e. (SNR_s - SNR_t)(x - x_hat)^2 / 2 in all
    prior KL     (a_1^2 x^2 - a_1^2 - log b_1^2) / 2
    reverse      N((1 - k) a_s x_hat + k (a_s/a_t) z_t,  b_s^2 (1 - k)),   k = SNR_t / SNR_s

Level k of V becomes x = (2k + 1)/V - 1, V being the position's own number of values. The
reconstruction is the likelihood *discretised* on those V values, p(k | z_0) ~ N(z_0; a_0 x_k,
b_0^2) (``discretised.py``), so that its bits are comparable with those of a discrete process on the
same integers. Any other variance convention is a change of z by a factor known from lambda; the
parametrisations do it.

Ends of the schedule. Neighbouring values lie 2/V apart and the noise relative to the signal is
e^(-lambda/2), so the reconstruction of a value depends on V e^(-lambda/2) only: an inner one costs
0.005 bit at lambda = 2 log V + 2.350. The natural schedule begins there. Beyond it nothing about
the data is left to learn except rounding, and bad rounding is expensive.

A sample is x_hat at the end of its trajectory; z there still has noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import attrs
import torch
from elbowroom import (
    IncompatibleError,
    Level,
    Noise,
    Process,
    RealPrediction,
    Schedule,
    Signature,
    Step,
)
from elbowroom.contracts import check_finite, check_range
from torch import Tensor

from .discretised import log_probability
from .parametrisation import (
    Parametrisation,
    PredictData,
    PredictEDM,
    PredictFlow,
    PredictLevels,
    PredictNoise,
    PredictVelocity,
)

LEGIBLE = 2.350
"""lambda - 2 log V at which the reconstruction of an inner value costs 0.005 bit."""
_MUCH = 0.5  # bits/dim
_FURTHEST = 80.0  # beyond it the smaller share underflows in float32


@attrs.frozen
class Gaussian(Process):
    """Gaussian noise added to scaled data. ``predict`` is the parametrisation."""

    traits: ClassVar[frozenset[str]] = frozenset({"real"})
    natural_schedule: ClassVar[str] = "vp-cosine"

    predict: Literal["eps", "x", "v", "flow", "edm", "levels"] = "levels"
    data_std: float = attrs.field(default=0.5, validator=attrs.validators.gt(0))

    def natural_schedule_options(self) -> Mapping[str, Any]:
        if self._data is None:
            return {}
        return {"log_snr_max": math.ceil(100 * (2 * math.log(self.data.levels) + LEGIBLE)) / 100}

    @property
    def parametrisation(self) -> Parametrisation:
        """The object named by ``predict``."""
        made: dict[str, Callable[[], Parametrisation]] = {
            "eps": PredictNoise,
            "x": PredictData,
            "v": PredictVelocity,
            "flow": PredictFlow,
            "edm": lambda: PredictEDM(self.data_std),
            "levels": lambda: PredictLevels(self._values(), self.data.possible),
        }
        return made[self.predict]()

    def check_schedule(self, schedule: Schedule) -> None:
        ends = schedule.log_snr(torch.tensor([0.0, 1.0], dtype=torch.float64))
        if not bool((ends.abs() <= _FURTHEST).all()):
            first, last = float(ends[0].max()), float(ends[-1].min())
            raise IncompatibleError(
                f"schedule: {schedule} has log-SNRs from {first:g} to {last:g}; a Gaussian process "
                f"needs both within ±{_FURTHEST:g}. Set e.g. schedule.eps=0.001."
            )

    def remarks(self, schedule: Schedule) -> tuple[str, ...]:
        if self._data is None or self.predict == "levels":
            return ()
        values, readable = self.data.levels, self.natural_schedule_options()["log_snr_max"]
        first = float(schedule.log_snr(torch.zeros(1, dtype=torch.float64)).max())
        beyond = (first - readable) / (2 * math.log(2))  # bits: half a nat per unit of lambda
        if not beyond > _MUCH:
            return ()
        return (
            f"bits/dim may exceed the uniform baseline log₂ {values} = {math.log2(values):.2f}: "
            f"the schedule ends at log-SNR {first:.4g}, but {values} values are distinguishable "
            f"from {readable:g} on, and a network that has not learned to round loses up to "
            f"{beyond:.1f} bits/dim in between. Set schedule.log_snr_max={readable:g}, or "
            "predict: levels, which needs no rounding",
        )

    def signature(self) -> Signature:
        data, text = self.data, self.data.tokens is not None
        states = data.levels if self.predict == "levels" else None
        return Signature(
            data.shape, None, states, data.classes, needs_level=True, text=text, sizes=data.sizes
        )

    def encode(self, x: Tensor) -> Tensor:
        check_range(x, self.data.counts())
        return self._scaled(x)

    def _scaled(self, x: Tensor) -> Tensor:
        return (2 * x.float() + 1) / self.data.counts(x.device) - 1

    def needs_final_prediction(self, z: Tensor) -> Tensor:
        return z.new_ones(len(z)).bool()

    def decode(
        self, z: Tensor, prediction: RealPrediction | None, level: Level, noise: Noise
    ) -> Tensor:
        x = z / level.aligned(z).share.sqrt() if prediction is None else prediction.x
        return self._nearest(check_finite(x))

    def prior(self, noise: Noise) -> Tensor:
        return noise.normal("prior", self.data.shape)

    def corrupt(self, x: Tensor, level: Level, noise: Noise) -> Tensor:
        level = level.aligned(x)
        eps = noise.normal("eps", x.shape[1:], x.dtype)
        return level.share.sqrt() * x + level.noise_share.sqrt() * eps

    def log_likelihood(self, z: Tensor, x: Tensor, level: Level) -> Tensor:
        level = level.aligned(x)
        b2 = level.noise_share
        density = -((z - level.share.sqrt() * x) ** 2) / (2 * b2) - (2 * torch.pi * b2).log() / 2
        return density.flatten(1).sum(1)

    def price(self, log_snr: Tensor) -> Tensor:
        return torch.ones_like(log_snr)

    def step_price(self, log_snr: Tensor, to: Tensor) -> Tensor:
        return torch.expm1(to - log_snr)

    def network_input(self, z: Tensor, level: Level) -> Tensor:
        return self.parametrisation.network_input(z, level.aligned(z))

    def read(self, output: Tensor, z: Tensor, level: Level) -> RealPrediction:
        precise = output.to(torch.promote_types(output.dtype, torch.float32))
        return self.parametrisation.read(precise, z, level.aligned(z))

    def clip_prediction(self, prediction: RealPrediction) -> RealPrediction:
        most: Any = 1 - 1 / self.data.counts(prediction.x.device)
        x = prediction.x.clamp(-most, most)
        return attrs.evolve(prediction, given_x=x, given_eps=None, given_v=None)

    def plain_loss(self, x: Tensor, z: Tensor, prediction: RealPrediction, level: Level) -> Tensor:
        level = level.aligned(x)
        eps = (z - level.share.sqrt() * x) / level.noise_share.sqrt()
        return (eps - prediction.eps) ** 2 / 2

    def units(self, z: Tensor) -> Tensor:
        return torch.full((len(z),), z[0].numel(), device=z.device)

    def prior_kl(self, x: Tensor, level: Level) -> Tensor:
        level = level.aligned(x)
        s, log_b2 = level.share.double(), torch.nn.functional.logsigmoid(-level.log_snr.double())
        return ((s * x.double() ** 2 - s - log_b2) / 2).flatten(1).sum(1)

    def reconstruction(self, x: Tensor, level: Level, noise: Noise) -> Tensor:
        level = level.aligned(x)
        z = self.corrupt(x.double(), level, noise)
        found = log_probability(z, self._nearest(x), level, self.data.counts(x.device))
        return -found.flatten(1).sum(1)

    def _values(self) -> Tensor:
        """The encoding of every value, [V]; [*D, V] where V depends on the position."""
        every = torch.arange(self.data.levels)
        if self.data.sizes is None:
            return self._scaled(every)
        return self._scaled(every.view(-1, *(1,) * len(self.data.shape))).movedim(0, -1)

    def _nearest(self, x: Tensor) -> Tensor:
        """The integer whose encoding is nearest to x."""
        values = self.data.counts(x.device)
        k = (((x + 1) * values - 1) / 2).round().long()
        return k.clamp(min=0).clamp(max=values - 1)

    def reverse(self, z: Tensor, prediction: RealPrediction, step: Step, noise: Noise) -> Tensor:
        step = step.aligned(z)
        away = step.level.log_snr - step.to.log_snr  # log k
        a_t, a_s = step.level.share.sqrt(), step.to.share.sqrt()
        of_x, of_z = -torch.expm1(away) * a_s, away.exp() * (a_s / a_t)
        std = (step.to.noise_share * -torch.expm1(away)).sqrt()
        of_x, of_z, std = (factor.to(z.dtype) for factor in (of_x, of_z, std))
        eps = noise.at(step.index).normal("reverse", z.shape[1:], z.dtype)
        return of_x * prediction.x + of_z * z + std * eps

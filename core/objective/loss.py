"""The objective: one line for every process.

    loss(x) = E_t [ w(t) elbo_weight(t) sum plain(x, z_t, prediction) / p(t) ],    t ~ p

In continuous time elbo_weight = rate * price. In discrete time with T steps, t is rounded up to a
multiple of 1/T and elbo_weight = T * step_price, so that the mean over t is the sum over steps.

The bound on -log p(x) is the same line with w = 1, plus two boundary terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs
import torch
from torch import Tensor

from ..contracts.level import Level, broadcast_over
from ..contracts.normaliser import BatchMean, Normaliser
from ..contracts.path import Completion, Path, Shared
from ..contracts.process import Process
from ..contracts.schedule import Schedule
from ..contracts.time_sampler import TimeSampler, stratified
from ..contracts.weighting import Weighting, positions_of
from ..errors import IncompatibleError
from ..randomness.noise import Noise

Predict = Callable[[Tensor, Level], Any]
"""(z, level) -> prediction of a network, its condition included."""


@attrs.frozen(eq=False)
class Losses:
    """The losses of one batch."""

    loss: Tensor  # scalar: differentiate this
    per_example: Tensor  # [B] weighted, nats
    elbo: Tensor  # [B] the same with w = 1: the bound's diffusion term
    log_snr: Tensor  # [B] of the drawn times
    time: Tensor  # [B] the drawn times
    density: Tensor  # [B] of the times; per_example and elbo are divided by it


@attrs.frozen(eq=False)
class Objective:
    """A weighted bound under a process and a schedule, estimated at random times.

    Args:
        process: Bound to its data.
        schedule: The log-SNR over time.
        weighting: The factor w of the ELBO's weight.
        times: The distribution of training times.
        steps: Number of steps in discrete time; None: continuous time.
        normaliser: The reduction over the batch.
    """

    process: Process
    schedule: Schedule
    weighting: Weighting
    times: TimeSampler
    steps: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )
    normaliser: Normaliser = attrs.field(factory=BatchMean)
    path: Path = attrs.field(factory=Shared)

    @classmethod
    def prepared(
        cls,
        process: Process,
        schedule: Schedule,
        weighting: Weighting,
        times: TimeSampler,
        **options: Any,
    ) -> Objective:
        """An objective with its weighting and time sampler prepared for each other."""
        weighting = weighting.prepare(schedule, process, options.get("steps"))
        positions_of(weighting, process)  # checks that they fit the data
        objective = cls(process, schedule, weighting, times, **options)
        objective._check_path()
        ready = times.prepare(objective.plain_weight)
        return attrs.evolve(objective, times=ready)

    def _check_path(self) -> None:
        if not self.path.per_position:
            return
        name = type(self.path).__name__
        if self.steps is not None:
            raise IncompatibleError(f"objective.path {name} needs continuous time: steps: null")
        if isinstance(self.weighting, torch.nn.Module):
            learned = type(self.weighting).__name__
            raise IncompatibleError(
                f"objective.path {name} needs a fixed weighting, and {learned} is trained"
            )

    def level(self, t: Tensor) -> Level:
        """The level of a drawn time ``t``."""
        if self.steps is None:
            return Level.of(t, self.schedule, self.process)
        last = ((t * self.steps).floor() + 1).clamp(max=self.steps) / self.steps
        return Level.of_step(last, self.steps, self.schedule, self.process)

    def plain_weight(self, t: Tensor) -> Tensor:
        """The factor of the plain loss at time ``t``."""
        return self.weighting.plain_weight(self.level(t))

    def __call__(
        self,
        predict: Predict,
        x: Tensor,
        noise: Noise,
        mean_over_ranks: Callable[[Tensor], Tensor] = lambda value: value,
        shares: Tensor | None = None,
    ) -> Losses:
        """The losses of encoded data ``x`` [B, *D] at times drawn from ``noise``.

        If ``x`` is a part of a batch, ``shares`` [B] are the factors of its losses in the batch.
        """
        t, density = self.times.draw(noise)
        density = torch.ones_like(density) if self.path.own_times else density
        exact = self.level(t)  # [B] float64
        penalty = self.weighting.penalty(exact)
        moved, speed = self._along_path(exact, x, noise)
        weight = _at_speed(self.weighting.plain_weight(moved), speed, x)
        z, level = self._corrupted(x, moved, speed, noise)
        plain = self.process.plain_loss(x, z, predict(z, level), level)  # [B, *D]

        def total(weight: Tensor, plain: Tensor) -> Tensor:
            return (weight.to(plain.dtype) * plain).flatten(1).sum(1) / density.to(plain.dtype)

        positions = self.weighting.over_positions(tuple(x.shape[1:]))
        counted = plain if positions is None else plain * positions.to(plain)
        losses = total(weight, counted) + penalty
        if shares is None:
            loss = self.normaliser(losses, self.process.units(z), mean_over_ranks)
        else:
            loss = (shares * losses).sum()
        elbo = total(_at_speed(moved.elbo_weight, speed, x), plain).detach()
        return Losses(loss, losses.detach(), elbo, exact.per_example().detach(), t, density)

    def _along_path(self, exact: Level, x: Tensor, noise: Noise) -> tuple[Level, Tensor | None]:
        """The levels of all positions, and their speeds; None on a shared clock."""
        times, speed = self.path(exact.t, noise, x.shape[1:])
        return (exact, None) if speed is None else (self.level(times), speed)

    def _corrupted(
        self, x: Tensor, exact: Level, speed: Tensor | None, noise: Noise
    ) -> tuple[Tensor, Level]:
        """z, and the levels shaped to broadcast against it."""
        level = exact.over(x, _precision())
        z = self.process.corrupt(x, level, noise)
        if speed is not None and "absorbing" in self.process.traits:
            z = torch.where((speed == 0) & (exact.t == 0), x, z)  # given positions are unmasked
        return z, level

    def units(self, x: Tensor, noise: Noise) -> Tensor:
        """[B] number of predicted units of encoded data ``x``; evaluates no network."""
        moved, speed = self._along_path(self.level(self.times.draw(noise)[0]), x, noise)
        return self.process.units(self._corrupted(x, moved, speed, noise)[0])


def _at_speed(weight: Tensor, speed: Tensor | None, x: Tensor) -> Tensor:
    """The weight per unit of tau, shaped to broadcast against x; 0 where nothing moves."""
    weight = broadcast_over(weight, x)
    return weight if speed is None else torch.where(speed > 0, weight * speed, 0.0)


def _precision() -> torch.dtype:
    """The precision of levels used with data: float32, or torch's default if higher."""
    return torch.promote_types(torch.get_default_dtype(), torch.float32)


@attrs.frozen(eq=False)
class Bound:
    """The three terms of a bound on -log p(x), in nats per example."""

    prior: Tensor  # [B]
    reconstruction: Tensor  # [B]
    diffusion: Tensor  # [B]

    @property
    def nats(self) -> Tensor:
        """[B] the bound itself."""
        return self.prior + self.reconstruction + self.diffusion

    def bits_per_dim(self, dims: int) -> Tensor:
        """[B] the bound in bits per dimension."""
        return self.nats / (dims * math.log(2))


def bound(
    process: Process,
    schedule: Schedule,
    predict: Predict,
    x: Tensor,
    noise: Noise,
    steps: int | None = None,
    path: Path | None = None,
) -> Bound:
    """An unbiased draw of the ELBO's three terms for encoded data ``x`` [B, *D].

    This is the likelihood every model is reported with, whatever weighting trained it. Along the
    path ``Completion(keep)`` it is the bound on -log p(x where not keep | x where keep).
    """
    path = Shared() if path is None else path
    objective = Objective(process, schedule, One(), _StratifiedTimes(), steps, path=path)
    diffusion = objective(predict, x, noise).elbo.double()
    keep = path.keep if isinstance(path, Completion) else None
    return Bound(*boundary_terms(process, schedule, x, noise, keep), diffusion)


_CERTAIN = 60.0  # |lambda| at which a position has no prior KL, or no reconstruction loss


def boundary_terms(
    process: Process, schedule: Schedule, x: Tensor, noise: Noise, keep: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """[B] prior KL and [B] reconstruction of encoded data ``x``: what needs no network.

    Positions where ``keep`` [B, *D] is true are given and cost nothing.
    """
    levels = Level.of(torch.tensor([0.0, 1.0], dtype=torch.float64), schedule, process)
    first, last = levels.select(0).over(x), levels.select(1).over(x)
    if keep is not None:
        first, last = (
            Level.at(torch.where(keep, certain, end.log_snr), process)
            for end, certain in ((first, _CERTAIN), (last, -_CERTAIN))
        )
    return process.prior_kl(x, last), process.reconstruction(x, first, noise)


class One(Weighting):
    """w = 1, the ELBO, for measuring. Configs name the plugin ``elbo``."""

    def __call__(self, level: Level) -> Tensor:
        return torch.ones_like(level.log_snr)


class _StratifiedTimes(TimeSampler):
    """Stratified times, for measuring."""

    def draw(self, noise: Noise) -> tuple[Tensor, Tensor]:
        t = stratified(noise)
        return t, torch.ones_like(t)

"""Pairs: each example of a batch is looked at twice, with noise and its mirror image.

The two looks of a pair share example and label. Uniforms are u and 1 - u, normals e and -e.

antithetic      one time for both. Where less than half is visible, no token is visible in both
                looks; where more is, none is hidden in both. Gaussian noise cancels in their mean.
complementary   times t and m(t), at which the shares of signal add up to one:

                    lambda(m(t)) = -lambda(t),      |m'(t)| = rate(t) / rate(m(t))

                so that what one look hides the other shows, whatever the schedule. Levels that
                have no such partner are their own: beyond the schedule's nearer end, or where no
                float64 below 1 is near enough.

A batch of B then holds B/2 examples, and its times B/2 strata. Of a complementary pair the times
have the density (1 + |m'(t)|) / 2, taken together: each look divided by it, their mean is unbiased
and no weight is above 2, which |m'| alone does not promise.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import torch
from elbowroom import IncompatibleError, Noise, Schedule, TimeSampler, stratified
from torch import Tensor

_NEAR = 1e-6  # of log-SNR, relatively: schedules find a time by 60 bisections


@attrs.frozen
class Antithetic(TimeSampler):
    """Both looks of a pair at one time, the times of pairs spread evenly."""

    paired: ClassVar[bool] = True

    def draw(self, noise: Noise) -> tuple[Tensor, Tensor]:
        t = stratified(noise)
        return t, torch.ones_like(t)


@attrs.frozen
class Complementary(TimeSampler):
    """One look of a pair at t, the other where the shares of signal and noise change places."""

    paired: ClassVar[bool] = True

    def for_schedule(self, schedule: Schedule) -> TimeSampler:
        if schedule.log_snr(torch.zeros(1, dtype=torch.float64)).ndim > 1:
            raise IncompatibleError(
                f"objective.times: complementary pairs need one log-SNR a time, and schedule "
                f"{type(schedule).__name__} has one for each position"
            )
        return Complements(schedule)

    def draw(self, noise: Noise) -> tuple[Tensor, Tensor]:
        raise RuntimeError("complementary times need for_schedule(schedule) first")


@attrs.frozen(eq=False)
class Complements(TimeSampler):
    """Complementary times along one schedule."""

    paired: ClassVar[bool] = True
    schedule: Schedule

    @torch.no_grad()  # the schedule may be learned; which times are drawn is not its affair
    def draw(self, noise: Noise) -> tuple[Tensor, Tensor]:
        t = stratified(noise)
        if noise.mirrored is None:
            return t, torch.ones_like(t)
        partner = self.partner(t)
        slope = self.schedule.rate(t) / self.schedule.rate(partner)  # the same seen from either
        slope = torch.where(noise.mirrored, 1 / slope, slope)
        return torch.where(noise.mirrored, partner, t), (1 + slope) / 2

    def partner(self, t: Tensor) -> Tensor:
        """m(t): the time at which the log-SNR is minus that at t; t itself where there is none."""
        log_snr = self.schedule.log_snr(t)
        found = self.schedule.time(-log_snr)
        away = (self.schedule.log_snr(found) + log_snr).abs()
        return torch.where(away <= _NEAR * (1 + log_snr.abs()), found, t)

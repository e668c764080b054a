"""Gaussian schedules, given by their log-SNR.

Time is mapped linearly into [eps, 1 - eps], which keeps lambda finite at both ends; eps = 0 is
allowed on the open interval. An end may be given by its log-SNR instead: lambda = log_snr_max at
t = 0, or lambda = log_snr_min at t = 1.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import attrs
import torch
from elbowroom import Schedule
from torch import Tensor


@attrs.frozen
class Squeezed(Schedule):
    """A log-SNR that is infinite at 0 and 1, restricted to two finite ends.

    The ends are those of [eps, 1 - eps], unless ``log_snr_max`` (data) or ``log_snr_min`` (noise)
    is given.
    """

    eps: float = attrs.field(
        default=1e-3,
        kw_only=True,
        validator=[attrs.validators.ge(0), attrs.validators.lt(0.5)],
    )
    log_snr_max: float | None = attrs.field(default=None, kw_only=True)  # None: by eps
    log_snr_min: float | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        first, last = self._ends
        if not first < 1 - last:
            raise ValueError(
                f"log_snr_max={self.log_snr_max} is not above log_snr_min={self.log_snr_min} "
                f"(eps={self.eps})"
            )

    @abstractmethod
    def curve(self, t: Tensor, rest: Tensor) -> Tensor:
        """lambda at squeezed time t, with rest = 1 - t free of cancellation."""

    @abstractmethod
    def fall(self, t: Tensor, rest: Tensor) -> Tensor:
        """Minus the slope of the curve there."""

    @abstractmethod
    def tail(self, log_snr: float) -> float:
        """The squeezed time at which the curve reaches ``log_snr``."""

    @abstractmethod
    def rest(self, log_snr: float) -> float:
        """One minus that time, free of cancellation."""

    def log_snr(self, t: Tensor) -> Tensor:
        return self.curve(*self._squeezed(t))

    def rate(self, t: Tensor) -> Tensor:
        first, last = self._ends
        return (1 - first - last) * self.fall(*self._squeezed(t))

    @property
    def _ends(self) -> tuple[float, float]:
        """The parts of squeezed time omitted before the data's end and after the noise's."""
        first = self.eps if self.log_snr_max is None else self.tail(self.log_snr_max)
        last = self.eps if self.log_snr_min is None else self.rest(self.log_snr_min)
        return first, last

    def _squeezed(self, t: Tensor) -> tuple[Tensor, Tensor]:
        first, last = self._ends
        keep = 1 - first - last
        return first + keep * t, last + keep * (1 - t)


@attrs.frozen
class VPCosine(Squeezed):
    """lambda = -2 log tan(pi t / 2), the cosine schedule of Nichol & Dhariwal."""

    def curve(self, t: Tensor, rest: Tensor) -> Tensor:
        return 2 * ((torch.pi / 2 * rest).sin().log() - (torch.pi / 2 * t).sin().log())

    def fall(self, t: Tensor, rest: Tensor) -> Tensor:
        return 2 * torch.pi / (torch.pi * torch.minimum(t, rest)).sin()

    def tail(self, log_snr: float) -> float:
        return 2 / math.pi * math.atan(math.exp(-log_snr / 2))

    def rest(self, log_snr: float) -> float:
        return self.tail(-log_snr)


@attrs.frozen
class Flow(Squeezed):
    """lambda = 2 log((1 - t) / t): the straight path of flow matching."""

    def curve(self, t: Tensor, rest: Tensor) -> Tensor:
        return 2 * (rest.log() - t.log())

    def fall(self, t: Tensor, rest: Tensor) -> Tensor:
        return 2 / t + 2 / rest

    def tail(self, log_snr: float) -> float:
        return 1 / (1 + math.exp(log_snr / 2))

    def rest(self, log_snr: float) -> float:
        return self.tail(-log_snr)


@attrs.frozen
class EDM(Squeezed):
    """lambda = F^-1(1 - t), F the normal distribution N(mean, std^2) EDM trains on."""

    mean: float = 2.4
    std: float = attrs.field(default=2.4, validator=attrs.validators.gt(0))

    def curve(self, t: Tensor, rest: Tensor) -> Tensor:
        # each half by its own tail, where the quantile is well conditioned
        upper = -torch.special.ndtri(t.clamp(max=0.5))
        lower = torch.special.ndtri(rest.clamp(max=0.5))
        return self.mean + self.std * torch.where(t < 0.5, upper, lower)

    def fall(self, t: Tensor, rest: Tensor) -> Tensor:
        quantile: Tensor = torch.special.ndtri(torch.minimum(t, rest))
        return self.std * math.sqrt(2 * math.pi) * (quantile**2 / 2).exp()

    def tail(self, log_snr: float) -> float:
        return math.erfc((log_snr - self.mean) / (self.std * math.sqrt(2))) / 2

    def rest(self, log_snr: float) -> float:
        return self.tail(2 * self.mean - log_snr)


@attrs.frozen
class LinearLogSNR(Schedule):
    """lambda falls linearly between two ends (VDM)."""

    log_snr_max: float = 13.3
    log_snr_min: float = attrs.field(default=-5.0)

    @log_snr_min.validator
    def _falls(self, _: object, value: float) -> None:
        if not value < self.log_snr_max:
            raise ValueError(f"log_snr_min {value} must be below log_snr_max {self.log_snr_max}")

    def log_snr(self, t: Tensor) -> Tensor:
        return self.log_snr_max * (1 - t) + self.log_snr_min * t

    def rate(self, t: Tensor) -> Tensor:
        return torch.full_like(t, self.log_snr_max - self.log_snr_min)

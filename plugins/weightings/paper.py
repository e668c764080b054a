"""The paper's weightings that are functions of the log-SNR (its tables 1 and 2).

As functions of lambda; with the lambda(t) of a process they are the w(t) of both tables.
"""

from __future__ import annotations

import math

import attrs
import torch
from elbowroom import Level, Weighting
from torch import Tensor


@attrs.frozen
class Elbo(Weighting):
    """w = 1: the evidence lower bound."""

    def __call__(self, level: Level) -> Tensor:
        return torch.ones_like(level.log_snr)


@attrs.frozen
class EDM(Weighting):
    """w = N(lambda; m, s^2) (e^-lambda + d^2) / d^2 (Karras et al. 2022).

    e^-lambda N(lambda; m, s^2) is a normal density with mean m - s^2, up to a factor; in this form
    nothing overflows at either end.
    """

    mean: float = 2.4
    std: float = attrs.field(default=2.4, validator=attrs.validators.gt(0))
    data_std: float = attrs.field(default=0.5, validator=attrs.validators.gt(0))

    def __call__(self, level: Level) -> Tensor:
        tilted = self._normal(level.log_snr, self.mean - self.std**2)
        tilt = math.exp(self.std**2 / 2 - self.mean) / self.data_std**2
        return tilt * tilted + self._normal(level.log_snr, self.mean)

    def _normal(self, lam: Tensor, mean: float) -> Tensor:
        return (-(((lam - mean) / self.std) ** 2) / 2).exp() / (self.std * math.sqrt(2 * math.pi))


@attrs.frozen
class IDDPM(Weighting):
    """w = sech(lambda / 2) (Nichol & Dhariwal 2021)."""

    def __call__(self, level: Level) -> Tensor:
        return 2 * (level.share * level.noise_share).sqrt()


@attrs.frozen
class Sigmoid(Weighting):
    """w = sigmoid(k - lambda) (Kingma & Gao 2023)."""

    k: float = 0.0

    def __call__(self, level: Level) -> Tensor:
        return (self.k - level.log_snr).sigmoid()


@attrs.frozen
class FlowMatching(Weighting):
    """w = e^(-lambda/2) (Lipman et al. 2022): unbounded as t goes to 1."""

    def __call__(self, level: Level) -> Tensor:
        return (-level.log_snr / 2).exp()

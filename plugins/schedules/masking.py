"""Masking schedules (MD4): the share of unmasked tokens at time t.

    share(t) = (1 - 2 eps) raw(t) + eps,    lambda = log share - log(1 - share)
    rate(t)  = -share'(t) (1/share + 1/(1 - share))

The unmasked part raw and the masked part 1 - raw are given separately, each without cancellation,
so that lambda is exact at both ends. eps keeps it finite there; eps = 0 is allowed on (0, 1).
"""

from __future__ import annotations

from abc import abstractmethod

import attrs
import torch
from elbowroom import Schedule
from torch import Tensor


@attrs.frozen
class Masking(Schedule):
    """A schedule given by its unmasked and its masked part."""

    eps: float = attrs.field(
        default=1e-4,
        kw_only=True,
        validator=[attrs.validators.ge(0), attrs.validators.lt(0.5)],
    )

    @abstractmethod
    def unmasked(self, t: Tensor) -> Tensor:
        """raw(t), from 1 down to 0."""

    @abstractmethod
    def masked(self, t: Tensor) -> Tensor:
        """1 - raw(t), from 0 up to 1."""

    @abstractmethod
    def masking_rate(self, t: Tensor) -> Tensor:
        """The slope of the masked part."""

    def log_snr(self, t: Tensor) -> Tensor:
        share, rest = self._shares(t)
        return share.log() - rest.log()

    def rate(self, t: Tensor) -> Tensor:
        share, rest = self._shares(t)
        return (1 - 2 * self.eps) * self.masking_rate(t) * (1 / share + 1 / rest)

    def _shares(self, t: Tensor) -> tuple[Tensor, Tensor]:
        keep = 1 - 2 * self.eps
        return keep * self.unmasked(t) + self.eps, keep * self.masked(t) + self.eps


@attrs.frozen
class Linear(Masking):
    """raw = 1 - t."""

    def unmasked(self, t: Tensor) -> Tensor:
        return 1 - t

    def masked(self, t: Tensor) -> Tensor:
        return t

    def masking_rate(self, t: Tensor) -> Tensor:
        return torch.ones_like(t)


@attrs.frozen
class Polynomial(Masking):
    """raw = 1 - t^k."""

    exponent: float = attrs.field(default=2.0, validator=attrs.validators.ge(1))

    def unmasked(self, t: Tensor) -> Tensor:
        return 1 - t**self.exponent

    def masked(self, t: Tensor) -> Tensor:
        return t**self.exponent

    def masking_rate(self, t: Tensor) -> Tensor:
        return self.exponent * t ** (self.exponent - 1)


@attrs.frozen
class Cosine(Masking):
    """raw = 1 - cos(pi/2 (1 - t)): few tokens are unmasked at first."""

    def unmasked(self, t: Tensor) -> Tensor:
        return 2 * (torch.pi / 4 * (1 - t)).sin() ** 2

    def masked(self, t: Tensor) -> Tensor:
        # sin near 0 where the value vanishes, cos near 1 where the slope does: exact at both
        early, late = (torch.pi / 2 * t).sin(), (torch.pi / 2 * (1 - t)).cos()
        return torch.where(t < 0.5, early, late)

    def masking_rate(self, t: Tensor) -> Tensor:
        return torch.pi / 2 * (torch.pi / 2 * (1 - t)).sin()

"""Weightings that are bounds by construction: mixtures of steps in log-SNR.

    w = a_0 + sum_k a_k sigmoid((lambda_k - lambda) / tau_k),      a >= 0, summing to 1

Every term rises with t under every schedule, so every choice of shares is a bound. a_k is the mass
of the mixture of bounds (the cascade of Theorem 2) around lambda_k, a_0 that of the ELBO. Each step
is half as wide as the gap between its neighbours. Weightings without a bound at t = 1, ``fm``
and ``simple``, are not of this form.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import attrs
import torch
from elbowroom import Level, Weighting
from torch import Tensor


def _rising(_: object, __: object, knots: Sequence[float]) -> None:
    finite = math.isfinite(sum(map(abs, knots)))  # also of the differences
    if not knots or not finite or any(b <= a for a, b in itertools.pairwise(knots)):
        raise ValueError("knots must be one or more finite log-SNRs, each above the one before")


@attrs.frozen
class Cascade(Weighting):
    """Shares of steps at knots; the first share is the ELBO's. Default: equal shares."""

    knots: tuple[float, ...] = attrs.field(
        default=(-4.0, -2.0, 0.0, 2.0, 4.0), converter=tuple, validator=_rising
    )
    shares: tuple[float, ...] = attrs.field(default=(), converter=tuple)

    @shares.validator
    def _masses(self, _: object, shares: Sequence[float]) -> None:
        if not shares:
            return
        many = len(self.knots) + 1
        if len(shares) != many or min(shares) < 0 or not 0 < sum(shares) < math.inf:
            raise ValueError(
                f"shares must be {many} finite masses >= 0, some above 0: the ELBO's, one a knot"
            )

    def __call__(self, level: Level) -> Tensor:
        given = self.shares or (1.0,) * (len(self.knots) + 1)
        elbo, *masses = (share / sum(given) for share in given)
        w = torch.full_like(level.log_snr, elbo)
        for knot, width, mass in zip(self.knots, self._widths(), masses, strict=True):
            w = w + mass * ((knot - level.log_snr) / width).sigmoid()
        return w

    def _widths(self) -> list[float]:
        """Half the mean gap to the neighbours; 1 for a single knot."""
        gaps = [b - a for a, b in itertools.pairwise(self.knots)]
        if not gaps:
            return [1.0]
        return [(a + b) / 4 for a, b in itertools.pairwise([gaps[0], *gaps, gaps[-1]])]

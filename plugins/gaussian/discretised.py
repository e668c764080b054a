"""The likelihood of an element's value given its noisy one, on the V values of the data.

    p(k | z) = N(z; a x_k, b^2) / sum_j N(z; a x_j, b^2),      x_k = (2k + 1)/V - 1

With y = ((z/a + 1) V - 1)/2, the position of z among the values, c the value nearest to it,
s = y - c and q = 2 SNR/V^2, all terms that do not depend on j cancel:

    log p(k | z) = e(k - c) - log sum_j exp e(j - c),          e(m) = -q m (m - 2s).

The sum is over the n values around c only, one after the other, so no tensor has an axis of values.
Where c is inside |s| <= 1/2, and at either edge s points outwards, so for every j with |j - c| = m
> w, e(j - c) <= -q m (m - 1) <= -q w (w + 1), while e(0) = 0. With all of c - w .. c + w in the
sum, the omitted part is less than V exp(-q w (w + 1)) of it, and w is the smallest with

    w (w + 1) >= (log V + 53 log 2)/q:

every log p is too large by at most 2^-53 nats. At high noise w reaches V - 1 and nothing
is omitted.
Where V differs between positions, the largest V gives n, and values j >= V are not in the sum.
"""

from __future__ import annotations

import math

from elbowroom import Level
from torch import Tensor

_OMITTED = 53 * math.log(2)  # half the spacing of float64 at 1


def log_probability(z: Tensor, k: Tensor, level: Level, values: Tensor | int) -> Tensor:
    """[B, *D] log p(k | z) in float64, for z and integers k [B, *D] of V ``values`` (or V [*D])."""
    c, s, q = _place(z, level, values)
    most = values if isinstance(values, int) else int(values.max())
    n = values_that_count(float(q.detach().min()), most)
    last = values - n if isinstance(values, int) else (values - n).clamp(min=0).double()
    j = (c - n // 2).clamp_(min=0).clamp_(max=last)  # the first value of the sum
    total = z.new_zeros((), dtype=s.dtype)
    for _ in range(n):
        term = _exponent(j - c, s, q).exp_()
        total = total + (term if isinstance(values, int) else term.masked_fill_(j >= values, 0))
        j += 1
    return _exponent(k - c, s, q) - total.log()


def _place(z: Tensor, level: Level, values: Tensor | int) -> tuple[Tensor, Tensor, Tensor]:
    """c, s and q."""
    share, snr = level.share.double(), level.log_snr.double().exp()
    y = ((z.double() / share.sqrt() + 1) * values - 1) / 2
    c = y.round().clamp(min=0).clamp(max=values - 1)
    return c, y.sub_(c), 2 * snr / values**2


def values_that_count(q: float, values: int) -> int:
    """n = 2w + 1, at most V."""
    least = (math.log(values) + _OMITTED) / q if q > 0 else math.inf  # of w (w + 1)
    w = math.ceil(min(math.sqrt(least + 0.25) - 0.5, values - 1))
    return min(2 * w + 1, values)


def _exponent(m: Tensor, s: Tensor, q: Tensor) -> Tensor:
    """e(m) = -q m (m - 2s)."""
    return (m - 2 * s).mul_(m).mul_(-q)

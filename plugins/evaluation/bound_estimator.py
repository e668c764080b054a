"""Monte Carlo estimate of the bound: at which levels it is evaluated, and its standard error.

Each of n examples is evaluated L times. Draw k of example i has the position

    p = k n + permutation(i),        t = (u + p / (L n)) mod 1,

so the times of all draws together are evenly spaced, and those of one example are 1/L apart. The
permutation is keyed (:mod:`elbowroom.randomness.shuffle`): the times of an example are independent
of its place in the split, which may be sorted by class, and do not depend on the number of ranks
or the batch size. Noise is keyed by the position too.

The standard error covers the choice of examples and the noise. With b_ik the bits of a draw and
g(t) their mean at t, estimated in bins of t,

    standard error = sd over examples i of [ mean over k of (b_ik - g(t_ik)) ] / sqrt(n).

The bound is the same under every schedule with the same ends. The model's own may visit some levels
with a large loss so rarely that a few draws dominate the estimate, so times follow

    t(lambda) = (own t(lambda) + even t(lambda)) / 2,

under which every level is drawn at least half as often as under either.
"""

from __future__ import annotations

import math

import attrs
import torch
from elbowroom import Diffusion, Noise, Path, Schedule, Split, stratified
from elbowroom.objective import Bound, bound
from elbowroom.randomness import permute
from torch import Tensor

_BIN_SIZE = 32  # draws per bin of t
_KNOTS = 513


@attrs.frozen(eq=False)
class BoundEstimator:
    """Evaluates the bound at ``draws`` times for each example in ``rows`` of a split."""

    model: Diffusion
    split: Split
    rows: Tensor  # [N] indices of the examples
    draws: int  # L
    seed: int
    step: int  # second key of the noise
    device: torch.device | str
    schedule: Schedule = attrs.field(init=False)

    @schedule.default
    def _half_even(self) -> Schedule:
        return HalfEven.of(self.model.schedule)

    def noise(self, numbers: Tensor) -> Noise:
        """Noise of all draws for the examples ``numbers`` of the N, [L * B]."""
        count = len(self.rows)
        shuffled = permute(numbers, count, self.seed, self.step)
        positions = (torch.arange(self.draws)[:, None] * count + shuffled).flatten()
        return Noise(self.seed, positions.to(self.device), self.draws * count, self.step)

    def times(self, numbers: Tensor) -> Tensor:
        """[L, B] the time t of each draw, on the CPU."""
        return stratified(self.noise(numbers)).cpu().view(self.draws, -1)

    def terms(self, numbers: Tensor, keep: Tensor | None = None) -> tuple[Bound, bool]:
        """The terms of the bound at each draw [L * B], and whether labels were given.

        With ``keep`` [B, *D] they are of -log p(x where not keep | x where keep).
        """
        batch = self.split.take(self.rows[numbers])
        x = batch.x.to(self.device)
        y = None if batch.y is None else batch.y.to(self.device).repeat(self.draws)
        encoded = self.model.process.encode(x.repeat(self.draws, *[1] * (x.ndim - 1)))
        found = bound(
            self.model.process,
            self.schedule,
            lambda z, level: self.model.predict(z, level, y),
            encoded,
            self.noise(numbers),
            path=self.model.path if keep is None else self._completion(keep),
        )
        return found, y is not None

    def _completion(self, keep: Tensor) -> Path:
        repeated = keep.to(self.device).repeat(self.draws, *[1] * (keep.ndim - 1))
        return self.model.completion(repeated)


def standard_error(values: Tensor) -> float | None:
    """Standard error of the mean of ``values`` [L, N] over the N examples."""
    each = values.mean(0)
    return float(each.std()) / math.sqrt(len(each)) if len(each) > 1 else None


def time_residuals(values: Tensor, t: Tensor) -> Tensor:
    """``values`` [L, N] at times t [L, N], minus the mean of all values in the same bin of t.

    Residuals are scaled by sqrt(n / (n - 1)), n values in the bin, as their mean is estimated.
    """
    bins = max(1, t.numel() // _BIN_SIZE)
    which = (t * bins).long().clamp(max=bins - 1).flatten()
    count = torch.bincount(which, minlength=bins).double()
    mean = torch.bincount(which, values.flatten().double(), bins) / count.clamp(min=1)
    scale = (count / (count - 1).clamp(min=1)).sqrt()
    return (values - mean[which].view_as(values)) * scale[which].view_as(values)


class HalfEven(Schedule):
    """t(lambda) is the mean of the model's own and of one linear in lambda with the same ends.

    Piecewise linear between knots, which is a schedule of its own: the bound is exact.
    """

    def __init__(self, log_snr: Tensor, t: Tensor) -> None:
        self._log_snr, self._t = log_snr, t  # [K] float64, falling and rising

    @classmethod
    def of(cls, own: Schedule) -> Schedule:
        """For a model's schedule; the schedule itself if its ends are infinite."""
        ends = own.log_snr(torch.tensor([0.0, 1.0], dtype=torch.float64))
        if ends.ndim != 1 or not bool(ends.isfinite().all()):
            return own
        part = torch.linspace(0, 1, _KNOTS, dtype=torch.float64)
        log_snr = ends[0] + part * (ends[1] - ends[0])
        t = (own.time(log_snr) + part) / 2
        t[0], t[-1] = 0.0, 1.0
        return cls(log_snr, t)

    def log_snr(self, t: Tensor) -> Tensor:
        k = self._segment(t)
        part = (t - self._t[k].to(t)) / (self._t[k + 1] - self._t[k]).to(t)
        return torch.lerp(self._log_snr[k].to(t), self._log_snr[k + 1].to(t), part)

    def rate(self, t: Tensor) -> Tensor:
        k = self._segment(t)
        return ((self._log_snr[k] - self._log_snr[k + 1]) / (self._t[k + 1] - self._t[k])).to(t)

    def _segment(self, t: Tensor) -> Tensor:
        """Index of the knot below t, on the CPU."""
        found = torch.searchsorted(self._t, t.detach().double().cpu().contiguous(), right=True) - 1
        return found.clamp(0, _KNOTS - 2)

"""Looks at examples: at which levels a bound is measured, and how sure its mean is.

Each of n examples is looked at L times. Look k of example i has the position

    p = k n + permutation(i),        t = (u + p / (L n)) mod 1,

so all looks together have evenly spread times (the mean over levels is left to chance no more), and
those of one example are 1/L apart. The permutation is keyed (:mod:`elbowroom.randomness.shuffle`):
which times fall to an example has nothing to do with its place in the split, which may be sorted by
class; and it is the same on any number of ranks and for any batch size. Noise is keyed by the
position too.

What stays to chance is which examples there are and how each differs from the mean at its level.
With b_ik the bits of a look and g(t) their mean at t, estimated in bins of t,

    standard error = sd over examples i of [ mean over k of (b_ik - g(t_ik)) ] / sqrt(n):

by so much another split of this size, with other noise, would give another measurement.
"""

from __future__ import annotations

import math

import attrs
import torch
from elbowroom import Diffusion, Noise, Schedule, Split, stratified
from elbowroom.objective import Bound, bound
from elbowroom.randomness import permute
from torch import Tensor

from .evaluation_schedule import HalfEven

_IN_A_BIN = 32  # looks


@attrs.frozen(eq=False)
class Looks:
    """``each`` looks at every one of the examples ``rows`` of a split."""

    model: Diffusion
    split: Split
    rows: Tensor  # [N] which examples
    each: int  # L
    seed: int
    step: int  # keys the noise beside the seed
    device: torch.device | str
    schedule: Schedule = attrs.field(init=False)

    @schedule.default
    def _less_left_to_chance(self) -> Schedule:
        return HalfEven.of(self.model.schedule)  # the same bound

    def noise(self, numbers: Tensor) -> Noise:
        """The noise of all looks at the examples ``numbers`` (of the N), [L * B]."""
        count = len(self.rows)
        shuffled = permute(numbers, count, self.seed, self.step)
        positions = (torch.arange(self.each)[:, None] * count + shuffled).flatten()
        return Noise(self.seed, positions.to(self.device), self.each * count, self.step)

    def times(self, numbers: Tensor) -> Tensor:
        """[L, B] the t of each look, on the CPU."""
        return stratified(self.noise(numbers)).cpu().view(self.each, -1)

    def terms(self, numbers: Tensor) -> tuple[Bound, bool]:
        """The bound's terms at each look [L * B], and whether labels were given."""
        batch = self.split.take(self.rows[numbers])
        x = batch.x.to(self.device)
        y = None if batch.y is None else batch.y.to(self.device).repeat(self.each)
        encoded = self.model.process.encode(x.repeat(self.each, *[1] * (x.ndim - 1)))
        found = bound(
            self.model.process,
            self.schedule,
            lambda z, level: self.model.predict(z, level, y),
            encoded,
            self.noise(numbers),
        )
        return found, y is not None


def standard_error(values: Tensor) -> float | None:
    """Of the mean of ``values`` [L, N], from the spread over the N examples."""
    each = values.mean(0)
    return float(each.std()) / math.sqrt(len(each)) if len(each) > 1 else None


def freed(values: Tensor, t: Tensor) -> Tensor:
    """``values`` [L, N] of looks at times t [L, N], less the mean of all in the same bin of t.

    What is taken away with an estimated mean, one part in as many as a bin holds, is put back.
    """
    bins = max(1, t.numel() // _IN_A_BIN)
    which = (t * bins).long().clamp(max=bins - 1).flatten()
    count = torch.bincount(which, minlength=bins).double()
    mean = torch.bincount(which, values.flatten().double(), bins) / count.clamp(min=1)
    scale = (count / (count - 1).clamp(min=1)).sqrt()
    return (values - mean[which].view_as(values)) * scale[which].view_as(values)

"""Random groups of samples, and the standard error by leaving out one group at a time.

With f the statistic of all n samples and f_g that without the n_g samples of group g, the
delete-a-group jackknife estimates the variance of f by

    sum over g of (n - n_g)/n (f_g - mean f_g)^2.

It needs sums by group only, so memory does not grow with the samples. For a statistic that is
quadratic in the deviation from its reference and has no linear part, as FID of samples from the
reference's own distribution, it has twice the variance; otherwise it is unbiased to first order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from elbowroom import Noise
from torch import Tensor

_SEED = 0  # of the groups: part of the metric's definition


def random_groups(first: int, count: int, groups: int) -> Tensor:
    """[count] the group of samples number ``first``, ``first + 1``, ...

    Of ``groups`` samples in a row one goes into each, in a keyed random order.
    """
    begin, before = divmod(first, groups)
    rounds = torch.arange(begin, begin + -(-(before + count) // groups))
    order = Noise(_SEED, rounds, len(rounds)).uniform("group", (groups,)).argsort(1)
    return order.flatten()[before : before + count]


def jackknife_error(without: Sequence[float], counts: Sequence[int]) -> float:
    """The standard error from the statistic without each group, and the size of each group."""
    values = torch.tensor(without, dtype=torch.float64)
    left = 1 - torch.tensor(counts, dtype=torch.float64) / sum(counts)
    return math.sqrt(float((left * (values - values.mean()).square()).sum()))

"""The information coordinate: how many of a model's bits lie between a level and the data.

    u(lambda) = (reconstruction + cost of all steps from lambda to the data) / the same from noise

u rises from nearly 0 at the data to 1 at noise, and means nearly the same for other data: equal
parts of u are equal numbers of bits. Costs are those of the measured curve, made not to rise with
lambda: where a network is worse than it was with more noise, it is taken for what it could have
known, so that levels do not gather where it is bad.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from elbowroom import ElbowroomError
from torch import Tensor

from .costs import StepCosts

_DECIMALS = 4  # of a log-SNR in a config


def information(costs: StepCosts) -> Tensor:
    """[n + 1] u at the levels of a curve, from noise to data."""
    each = costs.monotone().table().diagonal(1)  # [n]
    beyond = costs.reconstruction or 0.0
    left = torch.cat([each.flip(0).cumsum(0).flip(0), each.new_zeros(1)]) + beyond
    if not 0 < float(left[0]) < math.inf:
        raise ElbowroomError("its curve has no bits at any level, or too many to count")
    return left / left[0]


def equal_parts(costs: StepCosts, count: int) -> tuple[float, ...]:
    """At most ``count`` rising log-SNRs with equally many bits between them.

    Several that fall together, where much is said at once, are one.
    """
    u = (np.arange(count) + 1) / (count + 1)
    found = np.interp(u, information(costs).flip(0).numpy(), costs.log_snr.flip(0).numpy())
    return tuple(sorted({round(float(one), _DECIMALS) for one in found}))

"""The simple weighting: the unweighted plain loss.

    w(t) = 1 / elbo_weight(t)

Gaussian: -1/lambda', Ho et al.'s objective. Masked: -(1 - alpha)/alpha', the weighting of masked
image models. It depends on the schedule, so it is not a function of lambda alone. Its weight on the
plain loss is 1 also where w is infinite (masked cosine at t = 1), so it is given directly.
"""

from __future__ import annotations

import attrs
import torch
from elbowroom import Level, Weighting
from torch import Tensor


@attrs.frozen
class Simple(Weighting):
    """The plain loss, unweighted."""

    def __call__(self, level: Level) -> Tensor:
        return 1 / level.elbo_weight

    def plain_weight(self, level: Level) -> Tensor:
        return torch.ones_like(level.log_snr)

"""What samplers of absorbing processes share: which tokens are hidden, and when they appear."""

from __future__ import annotations

from typing import cast

import torch
from elbowroom import Level, Process
from elbowroom.process import Absorbing
from torch import Tensor

NEEDS = frozenset({"categorical", "absorbing"})
"""The traits these samplers ask for."""


def mask_of(process: Process) -> int:
    """The state that means *hidden*, which the trait ``absorbing`` promises."""
    return cast("Absorbing", process).mask


def revealed_share(start: Level, to: Level) -> Tensor:
    """(a_s - a_1)/(1 - a_1): the share of tokens revealed on the way from ``start`` to ``to``."""
    return to.share * -torch.expm1(start.log_snr - to.log_snr)

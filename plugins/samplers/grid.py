"""Time grids:

cosine    t_i = cos(pi/2 i/T)                                 small steps near the noise
log-snr   lambda_i rises evenly
rho       sigma_i^(1/rho) falls evenly, sigma = e^(-lambda/2)                       (EDM)
"""

from __future__ import annotations

import attrs
import torch
from attrs.validators import gt
from elbowroom import Grid, Schedule
from torch import Tensor


@attrs.frozen
class CosineGrid(Grid):
    """Small steps near the noise."""

    def times(self, steps: int, schedule: Schedule) -> Tensor:
        return _pinned((torch.pi / 2 * torch.arange(steps + 1, dtype=torch.float64) / steps).cos())


@attrs.frozen
class LogSNRGrid(Grid):
    """lambda rises evenly."""

    def times(self, steps: int, schedule: Schedule) -> Tensor:
        low, high = schedule.log_snr(torch.tensor([1.0, 0.0], dtype=torch.float64))
        return _pinned(schedule.time(low + _part(steps) * (high - low)))


@attrs.frozen
class RhoGrid(Grid):
    """sigma^(1/rho) falls evenly: dense near the data for a large ``rho``."""

    rho: float = attrs.field(default=7.0, validator=gt(0))

    def times(self, steps: int, schedule: Schedule) -> Tensor:
        ends = schedule.log_snr(torch.tensor([1.0, 0.0], dtype=torch.float64))
        first, last = (-ends / (2 * self.rho)).exp()
        root = first + _part(steps) * (last - first)
        return _pinned(schedule.time(-2 * self.rho * root.log()))


def _part(steps: int) -> Tensor:
    return torch.arange(steps + 1, dtype=torch.float64) / steps


def _pinned(t: Tensor) -> Tensor:
    """t with exact ends."""
    t[0], t[-1] = 1.0, 0.0
    return t

"""Grids: at which times a sampler stops on its way from noise to data.

A grid of T steps has T + 1 times from t = 1 down to t = 0, both exactly. Where steps are dense the
sampler is exact and slow; a good grid spends them where the model changes its mind.

How many steps a sampler may take is its own affair (``steps``), and nearly every grid takes them
all. One that was made for something else, a budget of network calls say, may take fewer; so whoever
walks a grid counts its times.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from torch import Tensor

    from .schedule import Schedule


class Grid(ABC):
    """Times of a sampler."""

    @abstractmethod
    def times(self, steps: int, schedule: Schedule) -> Tensor:
        """[T + 1] float64, falling from 1 to 0; T is ``steps``, or fewer where these suffice."""


@attrs.frozen
class EvenGrid(Grid):
    """t falls evenly: the grid of a sampler that names none."""

    def times(self, steps: int, schedule: Schedule) -> Tensor:
        import torch

        return 1 - torch.arange(steps + 1, dtype=torch.float64) / steps

"""Grids: the times of a sampler's steps.

A grid of T steps has T + 1 times from t = 1 (noise) down to t = 0 (data), both exactly. Dense steps
are accurate and slow; a good grid is dense where the prediction changes most.

The sampler gives the largest number of steps. Nearly every grid uses all of them; one made for a
budget of network calls may use fewer, so code that uses a grid counts its times.

A grid may be computed from a file, e.g. of a model's measured loss. ``made_from`` returns the file
and its sha256, which samples and measurements record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from .schedule import Schedule


class Grid(ABC):
    """Times of a sampler. Define ``times``."""

    @abstractmethod
    def times(self, steps: int, schedule: Schedule) -> Tensor:
        """[T + 1] float64, falling from 1 to 0; T is ``steps`` or less."""

    def made_from(self) -> Mapping[str, str]:
        """The files that its times are computed from -> their sha256 (default: none)."""
        return {}

    def of_run(self, run: Path) -> Grid:
        """The grid for the model of a run, whose folder may contain its files."""
        return self


@attrs.frozen
class EvenGrid(Grid):
    """Evenly spaced times, the default of every sampler."""

    def times(self, steps: int, schedule: Schedule) -> Tensor:
        import torch

        return 1 - torch.arange(steps + 1, dtype=torch.float64) / steps

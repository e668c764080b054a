"""Grids: at which times a sampler stops on its way from noise to data.

A grid of T steps has T + 1 times from t = 1 down to t = 0, both exactly. Where steps are dense the
sampler is exact and slow; a good grid spends them where the model changes its mind.

How many steps a sampler may take is its own affair (``steps``), and nearly every grid takes them
all. One that was made for something else, a budget of network calls say, may take fewer; so whoever
walks a grid counts its times.

A grid may be made from a file, a model's measured loss say. ``made_from`` then says which, since a
path in a config does not tell what was in the file: samples and measurements record it.
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
    """Times of a sampler."""

    @abstractmethod
    def times(self, steps: int, schedule: Schedule) -> Tensor:
        """[T + 1] float64, falling from 1 to 0; T is ``steps``, or fewer where these suffice."""

    def made_from(self) -> Mapping[str, str]:
        """Each file that its times are made from -> its sha256; one without them is refused."""
        return {}

    def of_run(self, run: Path) -> Grid:
        """The grid for the model of a run, in whose folder may be what it is made from."""
        return self


@attrs.frozen
class EvenGrid(Grid):
    """t falls evenly: the grid of a sampler that names none."""

    def times(self, steps: int, schedule: Schedule) -> Tensor:
        import torch

        return 1 - torch.arange(steps + 1, dtype=torch.float64) / steps

"""Metrics: figures about samples, accumulated batch by batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class Metric(ABC):
    """Sees integer samples in batches, then says its figures. Memory must not grow with them."""

    @abstractmethod
    def update(self, samples: Tensor, labels: Tensor | None) -> None:
        """One batch of integers [B, *shape]."""

    @abstractmethod
    def compute(self) -> Mapping[str, float]:
        """Figure name -> value."""

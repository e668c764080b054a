"""Guidance: a denoiser that is pushed towards what its condition says.

A guidance wraps a denoiser into another one of the same signature, so every sampler and every
process can be guided the same way. It costs what it costs: the calls of a sampler are counted as
calls of the guided network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from torch import nn

    from .process import Process


class Guidance(ABC):
    """How a denoiser is guided."""

    needs_null_label: ClassVar[bool] = True
    """Does it ask the network for "no label"? Then the model must be trained with label dropout."""

    def check_process(self, process: Process) -> None:  # noqa: B027  # most serve every process
        """Refuse a process, bound to its data, that it cannot guide."""

    @abstractmethod
    def __call__(self, denoiser: nn.Module, classes: int | None) -> nn.Module:
        """The guided network; ``classes`` is how many labels the data have, if any."""

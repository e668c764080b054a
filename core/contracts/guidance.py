"""Guidance: a denoiser whose prediction is moved towards its condition.

A guidance wraps a denoiser into another one of the same signature, so it applies to every sampler
and process. Network calls of a sampler are counted as calls of the guided network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from torch import nn

    from .process import Process


class Guidance(ABC):
    """A guidance method. Define ``__call__``."""

    needs_null_label: ClassVar[bool] = True
    """Whether it evaluates the network without a label, which needs label dropout in training."""

    def check_process(self, process: Process) -> None:  # noqa: B027  # most serve every process
        """Raise an IncompatibleError for a process, bound to its data, that it cannot guide."""

    @abstractmethod
    def __call__(self, denoiser: nn.Module, classes: int | None) -> nn.Module:
        """The guided network; ``classes`` is the number of labels of the data, if any."""

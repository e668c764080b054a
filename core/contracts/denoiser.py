"""Denoisers: the networks.

A denoiser is built from a :class:`~elbowroom.contracts.process.Signature`, so it cannot mismatch
its process:

    categorical in   z int64 [B, *D]          real in   z float [B, *D]
    categorical out  logits  [B, *D, V]       real out  [B, *D]

``log_snr`` is [B], or None for a network that is not told the level (as in the paper's masked
models); ``cond`` is [B] integer labels, or None.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from .process import Signature


class Denoiser(nn.Module, ABC):
    """A network for one signature. Options are keyword arguments of ``__init__``."""

    def __init__(self, signature: Signature) -> None:
        super().__init__()
        self.signature = signature

    @abstractmethod
    def forward(self, z: Tensor, log_snr: Tensor | None, cond: Tensor | None) -> Tensor: ...

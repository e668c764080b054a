"""Denoisers: the networks.

A denoiser is built from a :class:`~elbowroom.contracts.process.Signature`, so it cannot mismatch
its process:

    categorical in   z int64 [B, *D]          real in   z float [B, *D]
    categorical out  logits  [B, *D, V]       real out  [B, *D]

``log_snr`` is [B], or None for a network without the level as input (as in the paper's masked
models); ``cond`` is [B] integer labels, or None.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from .process import Signature

_MIXING = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)  # layers from features to features


class Denoiser(nn.Module, ABC):
    """A network for one signature. Options are keyword arguments of ``__init__``.

    Args:
        signature: Input and output spaces, given by the process.
    """

    checkpoint_activations: bool | None = None
    """Recompute activations in the backward pass; None: the network cannot."""

    null_class: bool | None = None
    """Whether there is a class for "no label", which label dropout needs; None: unknown."""

    takes_level_per_position: bool = False
    """Whether ``log_snr`` may be [B, *shape] (``signature.level_per_position``)."""

    def __init__(self, signature: Signature) -> None:
        super().__init__()
        self.signature = signature

    @abstractmethod
    def forward(self, z: Tensor, log_snr: Tensor | None, cond: Tensor | None) -> Tensor: ...

    def hidden_weights(self) -> list[nn.Parameter]:
        """Weights of hidden layers, for optimisers that treat them separately.

        By default those of linear layers, [out, in], and of convolutions, [out, in, *kernel],
        inside lists of blocks: neither embeddings nor the layers into and out of the network.
        """
        return _in_blocks(self)


def hidden_weights(network: nn.Module) -> list[nn.Parameter]:
    """Weights of hidden layers of any network."""
    return network.hidden_weights() if isinstance(network, Denoiser) else _in_blocks(network)


def _in_blocks(network: nn.Module) -> list[nn.Parameter]:
    lists = (module for module in network.modules() if isinstance(module, nn.ModuleList))
    inside = {id(m) for blocks in lists for m in blocks.modules()}
    mixing = [m for m in network.modules() if isinstance(m, _MIXING) and id(m) in inside]
    return [p for layer in mixing for name, p in layer.named_parameters() if name == "weight"]

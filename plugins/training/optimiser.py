"""Optimisers: how gradients become updates.

A component says which torch optimisers update which weights. The network tells apart

    hidden   weights of its hidden layers: matrices and filters between features
    other    all the rest: embeddings, norms, biases, the first and last layers

since some rules (Muon's) are made for the former only. Everything else is the training step's
affair, the same for all optimisers: it sets each group's rate (the group's ``lr`` as built, times
the rate schedule), clips, saves and restores their state, and **skips the update when a flag on the
device is up** without waiting for the device: a fused optimiser reads the flag itself, of any other
one what it changed is put back.

Existing torch optimisers do as they are, provided that an update is a function of parameter,
gradient and state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import attrs

if TYPE_CHECKING:
    import torch
    from torch import nn


@attrs.frozen(eq=False)
class Weights:
    """What is trained, in the order of the model's parameters."""

    every: Sequence[nn.Parameter]
    hidden: Sequence[nn.Parameter] = ()  # of hidden layers: [out, in] or [out, in, *kernel]

    @property
    def other(self) -> list[nn.Parameter]:
        """Those that are not hidden."""
        hidden = {id(p) for p in self.hidden}
        return [p for p in self.every if id(p) not in hidden]


@attrs.frozen
class Rates:
    """What the section ``train`` says to every optimiser."""

    learning_rate: float  # before the rate schedule
    betas: tuple[float, float]  # of moving averages of the gradient and its square
    weight_decay: float


class Optimiser(ABC):
    """A choice of torch optimisers. ``sharded`` says whether it can update split parameters."""

    sharded: ClassVar[bool] = True  # as FSDP2 splits them over ranks

    @abstractmethod
    def build(self, weights: Weights, rates: Rates) -> list[torch.optim.Optimizer]:
        """Optimisers that together update every weight once."""


def layouts(parameters: Sequence[nn.Parameter]) -> list[list[nn.Parameter]]:
    """Plain parameters and sharded ones: a fused kernel takes the one or the other."""
    from torch.distributed.tensor import DTensor

    groups: tuple[list[nn.Parameter], list[nn.Parameter]] = ([], [])
    for p in parameters:
        groups[isinstance(p, DTensor)].append(p)
    return [group for group in groups if group]

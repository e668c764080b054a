"""Optimisers: how gradients become updates.

A component returns torch optimisers for the weights of a model, which the network splits into

    hidden   weights of its hidden layers: matrices and filters between features
    other    all the rest: embeddings, norms, biases, the first and last layers

as some rules (Muon's) are made for the former only. The training step does the rest for all
optimisers: it sets each group's rate (the group's ``lr`` as built, times the rate schedule), clips,
saves and restores their state, and **skips the update if a flag on the device is set**, without
synchronising with the device: a fused optimiser reads the flag itself, the changes of any other
optimiser are undone.

Any torch optimiser can be used if its update is a function of parameter, gradient and state.
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
    """The trained parameters, in the order of the model's parameters."""

    every: Sequence[nn.Parameter]
    hidden: Sequence[nn.Parameter] = ()  # of hidden layers: [out, in] or [out, in, *kernel]

    @property
    def other(self) -> list[nn.Parameter]:
        """Those that are not hidden."""
        hidden = {id(p) for p in self.hidden}
        return [p for p in self.every if id(p) not in hidden]


@attrs.frozen
class Rates:
    """Options of the section ``train`` that apply to every optimiser."""

    learning_rate: float  # before the rate schedule
    betas: tuple[float, float]  # of moving averages of the gradient and its square
    weight_decay: float


class Optimiser(ABC):
    """A choice of torch optimisers."""

    sharded: ClassVar[bool] = True  # whether it can update parameters that FSDP2 has sharded

    @abstractmethod
    def build(self, weights: Weights, rates: Rates) -> list[torch.optim.Optimizer]:
        """Return optimisers that together update every weight once."""


@attrs.frozen
class AdamW(Optimiser):
    """torch's fused AdamW (Loshchilov & Hutter 2019) for every weight."""

    def build(self, weights: Weights, rates: Rates) -> list[torch.optim.Optimizer]:
        return [fused_adamw(weights.every, rates)]


def fused_adamw(parameters: Sequence[nn.Parameter], rates: Rates) -> torch.optim.Optimizer:
    """Return torch's AdamW, with one kernel for plain and one for sharded parameters."""
    import torch

    return torch.optim.AdamW(
        [{"params": group} for group in layouts(parameters)],
        lr=rates.learning_rate,
        betas=rates.betas,
        weight_decay=rates.weight_decay,
        fused=True,
    )


def layouts(parameters: Sequence[nn.Parameter]) -> list[list[nn.Parameter]]:
    """Split parameters into plain and sharded ones: a fused kernel takes one kind only."""
    from torch.distributed.tensor import DTensor

    groups: tuple[list[nn.Parameter], list[nn.Parameter]] = ([], [])
    for p in parameters:
        groups[isinstance(p, DTensor)].append(p)
    return [group for group in groups if group]

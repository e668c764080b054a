"""Adaptive components: time samplers and weightings that learn from the losses of training.

After update n an adaptive component receives statistics of the losses of the global batch, and its
behaviour at update n + 1 may depend on them:

    state <- adapt(state, sum over ranks of statistics(losses)),  in the order of the ranks

It is also an ``nn.Module`` whose state is in buffers: checkpoints contain them, so a resumed run is
bit-identical, and all ranks have the same state. Both methods run on the device and must not
synchronise with it. Adaptive submodules of a component receive the losses directly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from ..objective.loss import Losses


class Adaptive(ABC):
    """Mixin of a component that learns from losses instead of gradients."""

    @abstractmethod
    def statistics(self, losses: Losses) -> Tensor:
        """Sums over the examples of ``losses``, as a tensor of a fixed shape."""

    @abstractmethod
    def adapt(self, found: Tensor) -> None:
        """Update the state from a step's statistics, summed over the global batch."""

    def curves(self) -> Mapping[str, tuple[Tensor, Tensor]]:
        """Curves of the learned state to log: name -> x and y [N] (default: none)."""
        return {}


def adaptive_parts(component: object) -> list[Adaptive]:
    """The adaptive components among a component and its submodules."""
    from torch import nn

    inside = component.modules() if isinstance(component, nn.Module) else (component,)
    return [part for part in inside if isinstance(part, Adaptive)]


def is_trained(component: object) -> bool:
    """Whether training changes a component, by gradients or by statistics of losses."""
    from torch import nn

    trained = isinstance(component, nn.Module) and any(
        parameter.requires_grad for parameter in component.parameters()
    )
    return trained or bool(adaptive_parts(component))


def sums_by_time(time: Tensor, bins: int, *values: Tensor) -> Tensor:
    """[bins, 1 + n] float64: the number of times [B] in each bin of [0, 1], and n sums of values.

    A matrix product is deterministic on every device; scattered sums are not.
    """
    import torch

    bin_ = (time * bins).long().clamp(0, bins - 1)
    inside = torch.nn.functional.one_hot(bin_, bins).double()  # [B, bins]
    each = [value.double() for value in values]
    return inside.T @ torch.stack((torch.ones_like(time, dtype=torch.float64), *each), dim=1)

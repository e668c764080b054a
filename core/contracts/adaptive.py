"""Adaptive components: time samplers and weightings that learn from what training finds.

After update n an adaptive component is shown the losses of the global batch, and what it does at
update n + 1 may depend on them:

    state <- adapt(state, sum over ranks of statistics(losses)),  in the order of the ranks

It is an ``nn.Module`` too, and what it has learned is in its buffers: a checkpoint carries them, so
that a resumed run goes on bit by bit, and every rank has the same. Both methods run on the device
and must not make the host wait for it. A component that holds adaptive ones does not show them
anything: those among its submodules are shown the losses themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from ..objective.loss import Losses


class Adaptive(ABC):
    """What a component that learns from losses, not from gradients, is besides."""

    @abstractmethod
    def statistics(self, losses: Losses) -> Tensor:
        """Statistics of some examples: sums over them, of a shape that never changes."""

    @abstractmethod
    def adapt(self, found: Tensor) -> None:
        """Take in a step's statistics, those of the global batch."""

    def curves(self) -> Mapping[str, tuple[Tensor, Tensor]]:
        """What it has learned, to be logged: name -> x and y [N] (default: nothing)."""
        return {}


def adaptive_parts(component: object) -> list[Adaptive]:
    """The component and those inside it that learn from losses."""
    from torch import nn

    inside = component.modules() if isinstance(component, nn.Module) else (component,)
    return [part for part in inside if isinstance(part, Adaptive)]


def is_trained(component: object) -> bool:
    """Whether training changes a component, by gradients or by what it is shown."""
    from torch import nn

    trained = isinstance(component, nn.Module) and any(
        parameter.requires_grad for parameter in component.parameters()
    )
    return trained or bool(adaptive_parts(component))


def sums_by_time(time: Tensor, bins: int, *values: Tensor) -> Tensor:
    """[bins, 1 + n] float64: the number of times [B] in each bin of [0, 1], and n sums of values.

    By a product of matrices: the same bits each time, which scattered sums have not everywhere.
    """
    import torch

    bin_ = (time * bins).long().clamp(0, bins - 1)
    inside = torch.nn.functional.one_hot(bin_, bins).double()  # [B, bins]
    each = [value.double() for value in values]
    return inside.T @ torch.stack((torch.ones_like(time, dtype=torch.float64), *each), dim=1)

"""Exponential moving average (EMA) of a model's parameters, used to evaluate and sample.

    average <- d average + (1 - d) parameters,      d = min(decay, (1 + n) / (10 + n))

after update n = 0, 1, ...; the second argument (warm-up) keeps the average close to the parameters
at first, so that a run of fewer than 1 / (1 - decay) steps does not end near its initialisation.
Without warm-up d = decay. A run may keep several averages of different decays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor


class EMA:
    """The averaged parameters by name, sharded like the parameters."""

    def __init__(self, model: nn.Module, decay: float, warmup: bool = True) -> None:
        self.decay, self.warmup = decay, warmup
        self._parameters = dict(model.named_parameters())
        self.average: dict[str, Tensor] = {
            name: p.detach().clone() for name, p in self._parameters.items()
        }

    def decay_at(self, n: int) -> float:
        """Return d for update ``n``."""
        return min(self.decay, (1 + n) / (10 + n)) if self.warmup else self.decay

    @torch.no_grad()
    def update(self, n: int) -> None:
        """Update the average with the parameters after update ``n``."""
        torch._foreach_lerp_(_locals(self.average), _locals(self._parameters), 1 - self.decay_at(n))

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Swap the average into the model, and back afterwards."""
        self.swap()
        try:
            yield
        finally:
            self.swap()

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the values of the model's parameters and of the average."""
        # in place: optimiser, DDP and FSDP hold references to the tensors
        for p, average in zip(_locals(self._parameters), _locals(self.average), strict=True):
            before = p.clone()
            p.copy_(average)
            average.copy_(before)


def _locals(tensors: Mapping[str, Tensor]) -> list[Tensor]:
    """This rank's shard of each tensor, detached, in the same memory."""
    return [(t.to_local() if isinstance(t, DTensor) else t).detach() for t in tensors.values()]

"""An exponential moving average of a model's parameters: what is evaluated and sampled from.

    average <- d average + (1 - d) parameters,      d = min(decay, (1 + n) / (10 + n))

after update n = 0, 1, ...; the second form lets the average follow closely at first, so that a run
much shorter than 1 / (1 - decay) steps does not end near its initialisation. Without warm-up
d = decay throughout.

A run may keep several averages of different decays: which length is best is known only afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor


class EMA:
    """The averaged parameters, by name; sharded where the parameters are."""

    def __init__(self, model: nn.Module, decay: float, warmup: bool = True) -> None:
        self.decay, self.warmup = decay, warmup
        self._parameters = dict(model.named_parameters())
        self.average: dict[str, Tensor] = {
            name: p.detach().clone() for name, p in self._parameters.items()
        }

    def decay_at(self, n: int) -> float:
        """d after update ``n``."""
        return min(self.decay, (1 + n) / (10 + n)) if self.warmup else self.decay

    @torch.no_grad()
    def update(self, n: int) -> None:
        """Take in the parameters after update ``n``."""
        torch._foreach_lerp_(_locals(self.average), _locals(self._parameters), 1 - self.decay_at(n))

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model with the average in place of its parameters, which come back afterwards."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        # values change places, tensors do not: optimiser, DDP and FSDP keep what they hold
        for p, average in zip(_locals(self._parameters), _locals(self.average), strict=True):
            held = p.clone()
            p.copy_(average)
            average.copy_(held)


def _locals(tensors: Mapping[str, Tensor]) -> list[Tensor]:
    """This rank's part of each tensor, detached but of the same memory."""
    return [(t.to_local() if isinstance(t, DTensor) else t).detach() for t in tensors.values()]

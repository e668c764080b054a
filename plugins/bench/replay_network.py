"""A network that answers at no cost, so that the rest of a training step can be timed alone.

What is left of a step without its network takes a few milliseconds; beside a network of seconds,
whose time wanders by percents, it could not be seen.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Silenceable(nn.Module):
    """A network and, while it is ``silent``, its first answer, with gradients of zero."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.silent = False
        self.answer: Tensor | None = None
        self.gradients: list[Tensor] = []

    def forward(self, *seen: Any) -> Tensor:
        if self.silent and self.answer is not None:
            return _repeated(self.answer, self.gradients, *self.network.parameters())
        said: Tensor = self.network(*seen)
        if self.answer is None:
            self.answer = said.detach()
            self.gradients = [torch.zeros_like(p) for p in self.network.parameters()]
        return said


class _Repeated(torch.autograd.Function):
    """An answer that was known, as a function of all parameters."""

    @staticmethod
    def forward(ctx: Any, answer: Tensor, gradients: list[Tensor], *_: Tensor) -> Tensor:
        ctx.gradients = gradients
        return answer.view_as(answer)

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        # aliases: autograd keeps what nobody else holds, and would copy the tensors themselves
        return None, None, *(gradient.detach() for gradient in ctx.gradients)


def _repeated(answer: Tensor, gradients: list[Tensor], *parameters: Tensor) -> Tensor:
    said: Tensor = _Repeated.apply(answer, gradients, *parameters)  # type: ignore[no-untyped-call]
    return said

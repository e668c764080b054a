"""Steps along orthogonal matrices: what Muon does to a matrix, or to a convolution's filters.

With the momentum M <- mu M + (1 - mu) G of a gradient G, a weight W of n x m moves by

    W <- (1 - eta decay) W - eta 0.2 sqrt(max(n, m)) polar(U),       U = M, or with Nesterov's look
                                                                     ahead mu M + (1 - mu) G,

polar(U) being about the orthogonal matrix nearest to U. Filters [out, in, *kernel] are the matrix
[out, in * kernel]. Weights of one shape are worked on together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

QUINTIC = (3.4445, -4.7750, 2.0315)
"""Jordan et al.'s coefficients: steep at 0, so that few rounds do; 1 is met to about a third."""


class OrthogonalSteps(torch.optim.Optimizer):
    """The optimiser of the module's text."""

    def __init__(
        self,
        params: Sequence[nn.Parameter],
        *,
        lr: float,
        weight_decay: float,
        momentum: float,
        nesterov: bool,
        rounds: int,
    ) -> None:
        flat = [tuple(p.shape) for p in params if p.ndim < 2]
        if flat:
            raise ValueError(f"orthogonal steps are for matrices and filters, not for {flat}")
        usual = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(params, {**usual, "nesterov": nesterov, "rounds": rounds})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move every weight that has a gradient."""
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            for alike in _by_shape(group["params"]):
                self._move(alike, group)
        return loss

    def _move(self, alike: list[Tensor], group: dict[str, Any]) -> None:
        gradients = [p.grad for p in alike if p.grad is not None]
        momenta = [self._momentum(p) for p in alike]
        torch._foreach_lerp_(momenta, gradients, 1 - group["momentum"])
        if group["nesterov"]:
            momenta = list(torch._foreach_lerp(gradients, momenta, group["momentum"]))
        along = polar(torch.stack([m.flatten(1) for m in momenta]), group["rounds"])
        rate = group["lr"]
        torch._foreach_mul_(alike, 1 - rate * group["weight_decay"])
        steps = [step.view_as(p) for step, p in zip(along.unbind(), alike, strict=True)]
        torch._foreach_add_(alike, steps, alpha=-rate * 0.2 * math.sqrt(max(along.shape[1:])))

    def _momentum(self, p: Tensor) -> Tensor:
        state = self.state[p]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(p)
        momentum: Tensor = state["momentum_buffer"]
        return momentum


def polar(matrices: Tensor, rounds: int) -> Tensor:
    """[k, n, m]: each U S V^T as about U V^T, by so many Newton-Schulz rounds in bfloat16."""
    a, b, c = QUINTIC
    tall = matrices.shape[1] > matrices.shape[2]
    x = (matrices.mT if tall else matrices).bfloat16()  # the Gram matrix is the smaller one
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)  # no singular value above 1
    for _ in range(rounds):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).to(matrices.dtype)


def _by_shape(parameters: Sequence[nn.Parameter]) -> Iterator[list[Tensor]]:
    """Those that have a gradient, in lists of one shape."""
    found: dict[tuple[Any, ...], list[Tensor]] = {}
    for p in parameters:
        if p.grad is not None:
            found.setdefault((tuple(p.shape), p.device, p.dtype), []).append(p)
    yield from found.values()

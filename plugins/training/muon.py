"""Muon (Jordan et al. 2024): hidden layers are updated along the nearest orthogonal matrix.

With the momentum M <- mu M + (1 - mu) G of a gradient G, a weight W of n x m is updated by

    W <- (1 - eta decay) W - eta 0.2 sqrt(max(n, m)) polar(U),      U = M, or with Nesterov
                                                                    momentum mu M + (1 - mu) G,

where polar(U) approximates the orthogonal factor of U = P S Q^T, P Q^T, by Newton-Schulz
iterations. The factor 0.2 sqrt(max(n, m)) gives updates the size of AdamW's (Liu et al. 2025), so
that rates and weight decay tuned for AdamW can be kept. Filters [out, in, *kernel] are treated as
the matrix [out, in * kernel]. Weights of one shape are updated together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import attrs
import torch
from attrs.validators import and_, ge, gt, lt
from elbowroom import IncompatibleError
from torch import Tensor, nn

from .optimiser import Optimiser, Rates, Weights, fused_adamw

QUINTIC = (3.4445, -4.7750, 2.0315)
"""Jordan et al.'s coefficients: steep at 0, so few iterations suffice; 1 is reached to a third."""


@attrs.frozen
class Muon(Optimiser):
    """Orthogonal updates for matrices and filters of hidden layers, fused AdamW for the rest.

    ``rate`` is their learning rate as a multiple of ``train.learning_rate``.
    """

    sharded: ClassVar[bool] = False  # orthogonalisation needs the full matrix

    rate: float = attrs.field(default=1.0, validator=gt(0))
    momentum: float = attrs.field(default=0.95, validator=and_(ge(0), lt(1)))
    nesterov: bool = True
    iterations: int = attrs.field(default=5, validator=and_(ge(1), lt(100)))  # of Newton-Schulz

    def build(self, weights: Weights, rates: Rates) -> list[torch.optim.Optimizer]:
        if not weights.hidden:
            raise IncompatibleError(
                "optimiser muon: the denoiser names no weights of hidden layers "
                "(Denoiser.hidden_weights). Use adamw."
            )
        hidden = OrthogonalSteps(
            weights.hidden,
            lr=self.rate * rates.learning_rate,
            weight_decay=rates.weight_decay,
            momentum=self.momentum,
            nesterov=self.nesterov,
            rounds=self.iterations,
        )
        return [hidden, fused_adamw(weights.other, rates)]


class OrthogonalSteps(torch.optim.Optimizer):
    """The torch optimiser of Muon's update."""

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
        """Update every weight that has a gradient."""
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            for weights in _by_shape(group["params"]):
                self._update(weights, group)
        return loss

    def _update(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        gradients = [p.grad for p in weights if p.grad is not None]
        momenta = [self._momentum(p) for p in weights]
        torch._foreach_lerp_(momenta, gradients, 1 - group["momentum"])
        if group["nesterov"]:
            momenta = list(torch._foreach_lerp(gradients, momenta, group["momentum"]))
        along = polar(torch.stack([m.flatten(1) for m in momenta]), group["rounds"])
        rate = group["lr"]
        torch._foreach_mul_(weights, 1 - rate * group["weight_decay"])
        steps = [step.view_as(p) for step, p in zip(along.unbind(), weights, strict=True)]
        torch._foreach_add_(weights, steps, alpha=-rate * 0.2 * math.sqrt(max(along.shape[1:])))

    def _momentum(self, p: Tensor) -> Tensor:
        state = self.state[p]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(p)
        momentum: Tensor = state["momentum_buffer"]
        return momentum


def polar(matrices: Tensor, rounds: int) -> Tensor:
    """Approximate P Q^T of each P S Q^T [k, n, m] by Newton-Schulz iterations in bfloat16."""
    a, b, c = QUINTIC
    tall = matrices.shape[1] > matrices.shape[2]
    x = (matrices.mT if tall else matrices).bfloat16()  # makes the Gram matrix the smaller one
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)  # no singular value above 1
    for _ in range(rounds):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).to(matrices.dtype)


def _by_shape(parameters: Sequence[nn.Parameter]) -> Iterator[list[Tensor]]:
    """Lists of parameters of one shape, device and dtype, of those with a gradient."""
    found: dict[tuple[Any, ...], list[Tensor]] = {}
    for p in parameters:
        if p.grad is not None:
            found.setdefault((tuple(p.shape), p.device, p.dtype), []).append(p)
    yield from found.values()

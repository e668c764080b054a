"""Apply gradients to weights with the optimisers of a run.

An update is skipped if a flag on the device is set, without synchronising with the device: fused
kernels read the flag themselves (``found_inf``, as in torch.amp); the changes of other optimisers
are undone, which costs a copy of their parameters and state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from .rate_schedule import RateSchedule


class Updates:
    """The optimisers of a run and their learning rates."""

    def __init__(
        self,
        optimisers: Sequence[torch.optim.Optimizer],
        schedule: RateSchedule,
        warmup: int,
        steps: int,
    ) -> None:
        self.optimisers = tuple(optimisers)
        self._schedule, self._warmup, self._steps = schedule, warmup, steps
        self._bases = [[group["lr"] for group in one.param_groups] for one in self.optimisers]

    def rate(self, base: float, n: int) -> float:
        """Return the learning rate of update ``n`` for the base rate ``base``."""
        return self._schedule.rate(base, n, self._warmup, self._steps)

    def step(self, n: int, skip: Tensor) -> None:
        """Apply update ``n``, unless ``skip``, a number on the device, is nonzero."""
        for optimiser, bases in zip(self.optimisers, self._bases, strict=True):
            for group, base in zip(optimiser.param_groups, bases, strict=True):
                group["lr"] = self.rate(base, n)
            if all(group.get("fused") for group in optimiser.param_groups):
                # read by fused kernels; usually set by a gradient scaler, hence not declared
                optimiser.found_inf = skip  # type: ignore[attr-defined]
                optimiser.step()
            else:
                _step_unless(skip, optimiser)
            optimiser.zero_grad()

    def zero_grad(self) -> None:
        """Clear the gradients."""
        for optimiser in self.optimisers:
            optimiser.zero_grad()

    def tensors(self, names: Mapping[int, str]) -> dict[str, Tensor]:
        """Return their state as ``exp_avg.<parameter>``; ``names`` maps id(parameter) to name."""
        return {
            f"{key}.{names[id(p)]}": value
            for optimiser in self.optimisers
            for p, state in optimiser.state.items()
            for key, value in state.items()
            if isinstance(value, Tensor)
        }

    def prepare(self, saved: Mapping[str, Tensor], names: Mapping[int, str]) -> None:
        """Allocate the tensors of a saved state, as the optimisers' first step would."""
        keys: dict[str, list[str]] = {}
        for whole in saved:
            key, _, name = whole.partition(".")
            keys.setdefault(name, []).append(key)
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                for p in group["params"]:
                    name = names[id(p)]
                    for key in keys.get(name, ()):  # no state without a gradient
                        like = saved[f"{key}.{name}"]
                        optimiser.state[p][key] = _empty_state(p, like, group)


def _empty_state(p: nn.Parameter, like: Tensor, group: Mapping[str, object]) -> Tensor:
    """Zeros for a saved tensor: like the parameter if it has its shape, else a counter."""
    if like.shape == p.shape:
        return torch.zeros_like(p, memory_format=torch.preserve_format)
    on_device = group.get("fused") or group.get("capturable")
    return torch.zeros(like.shape, dtype=like.dtype, device=p.device if on_device else "cpu")


def _step_unless(skip: Tensor, optimiser: torch.optim.Optimizer) -> None:
    """Step an optimiser that does not read the flag; counters on the host are not restored."""
    held = [p for group in optimiser.param_groups for p in group["params"] if p.grad is not None]
    before = {id(t): t.detach().clone() for t in _tensors(optimiser, held)}
    optimiser.step()
    up = skip != 0
    with torch.no_grad():
        for t in _tensors(optimiser, held):
            old = before.get(id(t))  # None: created by this step
            t.copy_(torch.where(up, torch.zeros_like(t) if old is None else old, t))


def _tensors(optimiser: torch.optim.Optimizer, held: Sequence[nn.Parameter]) -> Iterator[Tensor]:
    for p in held:
        yield p
        for value in optimiser.state.get(p, {}).values():
            if isinstance(value, Tensor) and value.device == p.device:
                yield value

"""Updates: gradients into weights, by whatever optimisers the run has.

An update is skipped where a flag on the device is up, without waiting for the device: fused kernels
read the flag themselves (``found_inf``, torch.amp's way); what another optimiser changed is put
back, value by value. The latter costs a copy of what it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from .rate_schedule import RateSchedule


class Updates:
    """The optimisers of a run and their rates."""

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
        """The learning rate of update ``n`` where it begins with ``base``."""
        return self._schedule.rate(base, n, self._warmup, self._steps)

    def step(self, n: int, skip: Tensor) -> None:
        """Update ``n``; nothing changes where ``skip``, a number on the device, is not 0."""
        for optimiser, bases in zip(self.optimisers, self._bases, strict=True):
            for group, base in zip(optimiser.param_groups, bases, strict=True):
                group["lr"] = self.rate(base, n)
            if all(group.get("fused") for group in optimiser.param_groups):
                # what fused kernels read; set by a gradient scaler otherwise, hence not declared
                optimiser.found_inf = skip  # type: ignore[attr-defined]
                optimiser.step()
            else:
                _step_unless(skip, optimiser)
            optimiser.zero_grad()

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for optimiser in self.optimisers:
            optimiser.zero_grad()

    def tensors(self, names: Mapping[int, str]) -> dict[str, Tensor]:
        """Their state, as ``exp_avg.<parameter>``; ``names`` by the parameter's identity."""
        return {
            f"{key}.{names[id(p)]}": value
            for optimiser in self.optimisers
            for p, state in optimiser.state.items()
            for key, value in state.items()
            if isinstance(value, Tensor)
        }

    def prepare(self, saved: Mapping[str, Tensor], names: Mapping[int, str]) -> None:
        """Make room for a saved state, as the optimisers' first step would."""
        keys: dict[str, list[str]] = {}
        for whole in saved:
            key, _, name = whole.partition(".")
            keys.setdefault(name, []).append(key)
        for optimiser, group, p in self._places():
            name = names[id(p)]
            for key in keys.get(name, ()):  # a parameter that never had a gradient has no state
                like = saved[f"{key}.{name}"]
                optimiser.state[p][key] = _room(p, like, group)

    def _places(
        self,
    ) -> Iterator[tuple[torch.optim.Optimizer, Mapping[str, object], nn.Parameter]]:
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                for p in group["params"]:
                    yield optimiser, group, p


def _room(p: nn.Parameter, like: Tensor, group: Mapping[str, object]) -> Tensor:
    """A tensor for a saved one: like the parameter where it has its shape, else a counter."""
    if like.shape == p.shape:
        return torch.zeros_like(p, memory_format=torch.preserve_format)
    on_device = group.get("fused") or group.get("capturable")
    return torch.zeros(like.shape, dtype=like.dtype, device=p.device if on_device else "cpu")


def _step_unless(skip: Tensor, optimiser: torch.optim.Optimizer) -> None:
    """One step of an optimiser that knows no flag; counters on the host are left as they are."""
    held = [p for group in optimiser.param_groups for p in group["params"] if p.grad is not None]
    before = {id(t): t.detach().clone() for t in _all(optimiser, held)}
    optimiser.step()
    up = skip != 0
    with torch.no_grad():
        for t in _all(optimiser, held):
            old = before.get(id(t))  # what the first step has made was nothing before
            t.copy_(torch.where(up, torch.zeros_like(t) if old is None else old, t))


def _all(optimiser: torch.optim.Optimizer, held: Sequence[nn.Parameter]) -> Iterator[Tensor]:
    for p in held:
        yield p
        for value in optimiser.state.get(p, {}).values():
            if isinstance(value, Tensor) and value.device == p.device:
                yield value

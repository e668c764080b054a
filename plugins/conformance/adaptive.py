"""Laws of an adaptive component."""

from __future__ import annotations

import copy
from typing import Any

import attrs
import torch
from elbowroom import Losses
from torch import Tensor, nn

from .law import close, ensure


def check_adaptive(part: Any) -> Any:
    """A copy of ``part`` after some updates; raises if the updates break a law."""
    part = copy.deepcopy(part)
    ensure(
        isinstance(part, nn.Module), "it is not an nn.Module, so its buffers are in no checkpoint."
    )
    for step in range(30):
        found = part.statistics(_losses(step))
        halves = [part.statistics(_rows(_losses(step), rows)) for rows in _HALVES]
        close(found, halves[0] + halves[1], "look at a batch", relative=1e-9, absolute=1e-12)
        part.adapt(found)
    again = copy.deepcopy(part)
    again.load_state_dict(part.state_dict())
    for one in (part, again):
        one.adapt(one.statistics(_losses(30)))
    for name, buffer in part.named_buffers():
        ensure(buffer.isfinite(), f"its buffer {name} is not finite after some steps.")
        other = again.get_buffer(name)
        ensure(buffer == other, f"its buffer {name} differs after loading its state.")
    return part


_HALVES = (slice(0, 128), slice(128, 256))


def _losses(step: int) -> Losses:
    """Losses of 256 examples whose mean and variance grow with time."""
    random = torch.Generator().manual_seed(step)
    t = torch.rand(256, generator=random, dtype=torch.float64)
    scatter = torch.rand(256, generator=random, dtype=torch.float64)
    each = (1 + t) * (0.5 + t * scatter)
    return Losses(each.mean(), each, each, 8 - 16 * t, t, torch.ones_like(t))


def _rows(losses: Losses, rows: slice) -> Losses:
    parts: dict[str, Tensor] = {f.name: getattr(losses, f.name) for f in attrs.fields(Losses)}
    return Losses(**{name: v if v.ndim == 0 else v[rows] for name, v in parts.items()})

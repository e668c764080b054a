"""Path ``given``: some positions of each example are clean, the others share one clock.

A network trained along it completes examples: given positions are at time 0 and contribute no
loss. The objective is the average over the drawn masks of bounds on -log p(rest | given).

An example has given positions with probability ``probability``. They are either scattered, each
with the same probability u, or one side of the example (a prefix, the left columns, ...) of the
share u, with u uniform on [0, 1] for each example.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs
import torch
from elbowroom import Noise, Path
from elbowroom.contracts import Completion, Shared
from torch import Tensor

_share = attrs.validators.and_(attrs.validators.ge(0.0), attrs.validators.le(1.0))


@attrs.frozen
class GivenPath(Path):
    """Random positions are given, so that the network learns completion."""

    meaning: ClassVar[str] = "the mean over random masks of bounds on -log p(rest | given)"

    probability: float = attrs.field(default=0.75, validator=_share)

    def __call__(self, t: Tensor, noise: Noise, shape: Sequence[int]) -> tuple[Tensor, Tensor]:
        return Completion(self.draw(noise, shape))(t, noise, shape)

    def bound_path(self) -> Path:
        return Shared()

    def draw(self, noise: Noise, shape: Sequence[int]) -> Tensor:
        """[B, *shape] which positions are given."""
        share, scattered, some = noise.uniform("given", (3,)).unbind(1)  # [B] each
        position = noise.uniform("given position", tuple(shape), torch.float32)
        keep = torch.where(_over(scattered < 0.5, shape), position, _sides(noise, shape))
        return (keep < _over(share, shape)) & _over(some < self.probability, shape)


def _sides(noise: Noise, shape: Sequence[int]) -> Tensor:
    """[B, *shape] the distance in (0, 1) from one of the sides, chosen for each example."""
    axes = [axis for axis, size in enumerate(shape[:2]) if size > 1] or [0]
    side = noise.integers("given side", 2 * len(axes))  # [B]
    distance = []
    for axis in axes:
        along = (torch.arange(shape[axis], device=noise.device) + 0.5) / shape[axis]
        along = along.view(-1, *(1,) * (len(shape) - axis - 1)).expand(tuple(shape))
        distance += [along, 1 - along]
    return torch.stack(distance)[side]


def _over(value: Tensor, shape: Sequence[int]) -> Tensor:
    return value.view(-1, *(1,) * len(shape))

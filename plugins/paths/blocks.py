"""Path ``blocks``: block diffusion. Blocks of positions in order, diffusion inside each.

With M blocks, block m = 0 .. M-1 has the time

    gamma_m(tau) = clip(M tau - (M - 1 - m), 0, 1),

so that while tau falls from 1 to 0 the first block is generated first, given nothing, and each
later block given those before it. One block is the shared clock; blocks of one position are
autoregression in the order of the positions.

References: Arriola et al. 2025, "Block diffusion"; Han et al. 2023, "SSD-LM".
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import torch
from elbowroom import DataSpec, IncompatibleError, Noise, Path
from torch import Tensor


@attrs.frozen
class Blocks(Path):
    """Blocks of ``size`` positions, one after the other."""

    size: int = attrs.field(default=16, validator=attrs.validators.ge(1))

    def prepare(self, data: DataSpec) -> Path:
        if self.size > data.dims:
            raise IncompatibleError(
                f"objective.path blocks: size {self.size} is larger than the {data.dims} "
                "positions of an example"
            )
        return self

    def __call__(self, t: Tensor, noise: Noise, shape: Sequence[int]) -> tuple[Tensor, Tensor]:
        block = torch.arange(_count(shape), device=t.device) // self.size
        blocks = int(block[-1]) + 1
        clock = blocks * t[:, None] - (blocks - 1 - block)  # [B, N]
        speed = ((clock > 0) & (clock <= 1)).to(t.dtype) * blocks
        return clock.clamp(0, 1).view(-1, *shape), speed.view(-1, *shape)


def _count(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count

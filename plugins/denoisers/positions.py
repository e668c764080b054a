"""Positions of tokens: fixed sines added to them, or rotations of their queries and keys.

Both map a coordinate p to angles p * w_i, w_i = 10000^(-i / n) for i = 0 .. n-1, and share the
dimensions evenly between the axes of the grid, the last axis (columns) first.

- ``sincos`` adds [sin, cos] of the angles to the token (Vaswani et al. 2017; Dosovitskiy et al.
  2021 in two dimensions).
- ``rope`` rotates each pair of neighbouring dimensions of q and k by its angle (Su et al. 2021; Lu
  et al. 2024 in two dimensions), so that their product depends on the distance only.
"""

from __future__ import annotations

import math

import torch
from elbowroom import ConfigError, IncompatibleError
from torch import Tensor, nn


def angles(grid: tuple[int, ...], count: int, device: torch.device) -> tuple[Tensor, ...]:
    """For each axis, the last first: [N, count] the angles of all N positions of the grid."""
    exact = torch.float32 if device.type == "mps" else torch.float64  # mps has no float64
    rates = 10000.0 ** (-torch.arange(count, dtype=exact, device=device) / count)
    places = [torch.arange(side, dtype=exact, device=device) for side in grid]
    axes = torch.meshgrid(*places, indexing="ij")
    return tuple(axis.reshape(-1, 1) * rates for axis in reversed(axes))


class Positions(nn.Module):
    """Positions on ``grid`` for tokens of ``width`` and heads of width ``head``."""

    def __init__(self, grid: tuple[int, ...], width: int, head: int) -> None:
        super().__init__()
        self.grid, self.width, self.head = grid, width, head

    def add(self, tokens: Tensor) -> Tensor:
        """Tokens [B, N, width] with their positions added (default: unchanged)."""
        return tokens

    def rotation(self, device: torch.device) -> Tensor | None:
        """[N, head / 2] complex factors of q and k (default: none)."""
        return None


class SinCos(Positions):
    """A fixed table, added to the tokens."""

    table: Tensor

    def __init__(self, grid: tuple[int, ...], width: int, head: int) -> None:
        super().__init__(grid, width, head)
        if width % (2 * len(grid)):
            raise IncompatibleError(
                f"sincos positions on {len(grid)} axes need a width divisible by {2 * len(grid)}; "
                f"{width} is not"
            )
        self.register_buffer("table", torch.empty(math.prod(grid), width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Compute the table."""
        count = self.width // (2 * len(self.grid))
        turns = angles(self.grid, count, torch.device("cpu"))  # on meta it imports torch._dynamo
        self.table.copy_(torch.cat([part for a in turns for part in (a.sin(), a.cos())], dim=1))

    def add(self, tokens: Tensor) -> Tensor:
        return tokens + self.table


class Rope(Positions):
    """Rotations, computed once in a forward pass for all blocks."""

    def __init__(self, grid: tuple[int, ...], width: int, head: int) -> None:
        super().__init__(grid, width, head)
        if head % (2 * len(grid)):
            raise IncompatibleError(
                f"rope positions on {len(grid)} axes need a head width divisible by "
                f"{2 * len(grid)}; {head} is not"
            )

    def rotation(self, device: torch.device) -> Tensor:
        turn = torch.cat(angles(self.grid, self.head // (2 * len(self.grid)), device), dim=1)
        return torch.complex(turn.cos(), turn.sin()).to(torch.complex64)


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate the neighbouring pairs of x [B, N, K, H, D] by ``rotation`` [N, D / 2]."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))  # there are no complex bfloat16
    pairs = torch.view_as_complex(wide.view(*x.shape[:-1], -1, 2))  # [B, N, K, H, D / 2]
    return torch.view_as_real(pairs * rotation[:, None, None]).flatten(-2).to(x.dtype)


POSITIONS: dict[str, type[Positions]] = {"sincos": SinCos, "rope": Rope}


def positions_of(name: str, grid: tuple[int, ...], width: int, heads: int) -> Positions:
    """The positions named in a config."""
    if name not in POSITIONS:
        raise ConfigError(f"positions: {name!r} is not one of {', '.join(map(repr, POSITIONS))}")
    return POSITIONS[name](grid, width, width // heads)

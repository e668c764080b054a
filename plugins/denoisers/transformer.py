"""The transformer of DiT (Peebles & Xie 2023), with a gated MLP.

One block, with shift, scale and gate from the condition c (adaLN-zero):

    x <- x + gate_1 * attention(norm(x) (1 + scale_1) + shift_1)
    x <- x + gate_2 *       mlp(norm(x) (1 + scale_2) + shift_2)

norm is a LayerNorm without parameters; mlp(x) = w2 (s(w1 x) * w3 x) without biases, s = sigmoid
(``glu``) or SiLU (``swiglu``). The gates start at zero, so every block starts as the identity.
In training, the outputs of attention and mlp pass dropout with one mask for all tokens of a sample,
as in MD4's gated MLP.

For speed, the modulation of all blocks is one product at the start of the pass, q, k and v are
another, w1 and w3 a third; the parameters are those of separate matrices, stacked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from elbowroom import ConfigError
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from .attention import Attention
from .layers import Linear
from .positions import Positions, rotate

Mlp = Literal["glu", "swiglu"]
Run = Callable[..., Tensor]
"""Runs a block: ``plainly``, or ``recomputing`` it in the backward pass to save memory."""


def plainly(block: nn.Module, *arguments: object) -> Tensor:
    """Run a block and store all activations."""
    out: Tensor = block(*arguments)
    return out


def recomputing(block: nn.Module, *arguments: object) -> Tensor:
    """Run a block and store only its input."""
    out: Tensor = checkpoint(block, *arguments, use_reentrant=False)
    return out


def block_runner(checkpoint_activations: bool) -> Run:
    """The function that runs a network's blocks in a forward pass."""
    return recomputing if checkpoint_activations and torch.is_grad_enabled() else plainly


def check_rates(**rates: float) -> None:
    """Raise a ConfigError for dropout rates outside [0, 1)."""
    for name, rate in rates.items():
        if not 0 <= rate < 1:
            raise ConfigError(f"{name}: {rate} is not in [0, 1)")


def check_sizes(**sizes: int) -> None:
    """Raise a ConfigError for sizes below one."""
    for name, size in sizes.items():
        if size < 1:
            raise ConfigError(f"{name}: {size} is not at least 1")


def heads_of(width: int, heads: int | None) -> int:
    """The number of heads; default: of width 64, 32, 16 or 8, the widest that gives two or more."""
    if heads is None:
        fitting = [width // head for head in (64, 32, 16, 8) if not width % head]
        heads = next((n for n in fitting if n > 1), 1)
    if heads < 1 or width % heads:
        raise ConfigError(
            f"heads: a width of {width} does not divide into {heads} heads; allowed are "
            f"{', '.join(str(n) for n in range(1, width + 1) if not width % n)}"
        )
    return heads


def hidden_of(width: int, hidden: int | None) -> int:
    """Default: 8/3 of the width, rounded up to a multiple of 64."""
    hidden = hidden if hidden is not None else 64 * math.ceil(8 * width / 3 / 64)
    check_sizes(hidden=hidden)
    return hidden


def glu(x: Tensor) -> Tensor:
    """[w3 x, w1 x] -> sigmoid(w1 x) * w3 x."""
    return F.glu(x)


def swiglu(x: Tensor) -> Tensor:
    """[w3 x, w1 x] -> SiLU(w1 x) * w3 x."""
    value, gate = x.chunk(2, dim=-1)
    return F.silu(gate) * value


GATES: dict[str, Callable[[Tensor], Tensor]] = {"glu": glu, "swiglu": swiglu}


def modulated(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """norm(x) (1 + scale) + shift, with [B, N, d] and twice [B, 1, d]."""
    return torch.addcmul(shift, F.layer_norm(x, x.shape[-1:], eps=1e-6), 1 + scale)


class QKNorm(nn.Module):
    """Normalised queries and keys, with a learned scale for each dimension of a head."""

    def __init__(self, head: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2, head))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise."""
        nn.init.ones_(self.weight)

    def forward(self, qk: Tensor) -> Tensor:
        """[B, N, 2, H, D] -> the same."""
        weight = self.weight[:, None].to(qk.dtype)  # [2, 1, D]
        return F.rms_norm(qk, qk.shape[-1:], eps=1e-6) * weight


class Block(nn.Module):
    """One transformer block."""

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        depth: int,
        *,
        mlp: Mlp,
        qk_norm: bool,
        dropout: float,
        attention_dropout: float,
        attention: Attention,
    ) -> None:
        super().__init__()
        if mlp not in GATES:
            raise ConfigError(f"mlp: {mlp!r} is not one of {', '.join(map(repr, GATES))}")
        self.heads, self.gate = heads, GATES[mlp]
        self.dropout, self.attention_dropout = dropout, attention_dropout
        self.attention = attention
        self.qkv = Linear(width, 3 * width)
        self.out = Linear(width, width, bias=False)
        self.qk_norm = QKNorm(width // heads) if qk_norm else None
        gain = math.sqrt(2 / depth)  # depth-scaled: the sum over all blocks stays of order one
        self.w31 = Linear(width, 2 * hidden, bias=False, gain=gain)
        self.w2 = Linear(hidden, width, bias=False, gain=gain)

    def forward(self, x: Tensor, modulation: Tensor, rotation: Tensor | None) -> Tensor:
        """Tokens x [B, N, d], modulation [B, 6, d], rotation [N, D / 2]."""
        each = modulation.unsqueeze(2).unbind(1)  # six of [B, 1, d]
        shift1, scale1, gate1, shift2, scale2, gate2 = each
        # Dropout has one mask for all tokens, so it is applied to the gates.
        gate1, gate2 = (F.dropout(gate, self.dropout, self.training) for gate in (gate1, gate2))
        x = torch.addcmul(x, gate1, self.attend(modulated(x, shift1, scale1), rotation))
        h = self.w2(self.gate(self.w31(modulated(x, shift2, scale2))))
        return torch.addcmul(x, gate2, h)

    def attend(self, x: Tensor, rotation: Tensor | None) -> Tensor:
        """Self-attention of x [B, N, d]."""
        qkv: Tensor = self.qkv(x).view(*x.shape[:2], 3, self.heads, -1)  # [B, N, 3, H, D]
        if rotation is None and self.qk_norm is None:
            q, k, v = qkv.unbind(2)
        else:
            qk, v = qkv.split_with_sizes([2, 1], dim=2)
            if self.qk_norm is not None:
                qk = self.qk_norm(qk)
            if rotation is not None:
                qk = rotate(qk, rotation)
            q, k, v = *qk.to(v.dtype).unbind(2), v.squeeze(2)
        dropout = self.attention_dropout if self.training else 0.0
        out: Tensor = self.out(self.attention(q, k, v, dropout).flatten(2))
        return out


class Transformer(nn.Module):
    """Blocks on tokens, and the final norm: [B, N, d] -> [B, N, d]."""

    def __init__(
        self,
        positions: Positions,
        *,
        width: int,
        heads: int,
        hidden: int,
        depth: int,
        condition: int,
        mlp: Mlp,
        qk_norm: bool,
        dropout: float,
        attention_dropout: float,
        attention: Attention,
    ) -> None:
        super().__init__()
        self.width = width
        self.positions = positions
        self.told = Linear(condition, (6 * depth + 2) * width, gain=0)  # blocks, then final norm
        self.blocks = nn.ModuleList(
            Block(
                width,
                heads,
                hidden,
                depth,
                mlp=mlp,
                qk_norm=qk_norm,
                dropout=dropout,
                attention_dropout=attention_dropout,
                attention=attention,
            )
            for _ in range(depth)
        )

    def forward(self, tokens: Tensor, condition: Tensor, run: Run) -> Tensor:
        modulation: Tensor = self.told(F.silu(condition)).to(tokens.dtype)
        modulation = modulation.view(len(tokens), -1, self.width)  # [B, 6 depth + 2, d]
        *to_blocks, to_norm = modulation.split_with_sizes([6] * len(self.blocks) + [2], dim=1)
        rotation = self.positions.rotation(tokens.device)
        x = self.positions.add(tokens)
        for block, to_block in zip(self.blocks, to_blocks, strict=True):
            x = run(block, x, to_block, rotation)
        shift, scale = to_norm.unsqueeze(2).unbind(1)
        return modulated(x, shift, scale)

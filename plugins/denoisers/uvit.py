"""uvit: residual blocks around a DiT, the paper's denoiser.

    values -> conv -> n residual blocks -> DiT on patches -> n + 1 residual blocks -> norm -> conv

The outputs of the first convolution and of the n blocks after it are the skip connections of the
n + 1 last blocks, in reverse order. The DiT has no residual connection around it. This is the
network of Shi et al. 2024 (MD4); Shi & Titsias, whose table of hyperparameters the presets
``imagenet64-204m`` and ``imagenet64-324m`` follow, gate its MLPs and remove the time. The defaults
are a network for small images.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from elbowroom import ConfigError, Denoiser, IncompatibleError, Signature
from torch import Tensor, nn

from .attention import Choice, attention as attention_of
from .condition import Condition, Time
from .layers import Conv2d, Linear
from .positions import positions_of
from .residual import ResidualBlock, conditional_group_norm, groups_of
from .transformer import (
    Mlp,
    Transformer,
    block_runner,
    check_rates,
    check_sizes,
    heads_of,
    hidden_of,
)
from .values import Values, out_features, out_shape, patch_grid


class UViT(Denoiser):
    """Residual blocks around a DiT, for images.

    ``width``, ``depth``, ``heads``, ``hidden``: of the transformer (``hidden`` of its MLP; by
    default 8/3 of the width). ``channels``, ``blocks``, ``groups``: of the residual part, with
    ``blocks`` before the transformer and one more after it, and ``groups`` of its norms (by
    default the greatest common divisor of 32 and ``channels``). ``embedding`` and ``condition``:
    the widths of a token's and the condition's vectors (by default ``channels``). ``dropout``
    applies to residual blocks and to the outputs of attentions and MLPs, ``attention_dropout`` to
    the attention's weights.
    """

    takes_level_per_position = True
    checkpoint_activations: bool = False
    """Set by a run: store only the blocks' inputs for the backward pass and recompute the rest."""

    def __init__(
        self,
        signature: Signature,
        *,
        width: int = 96,
        depth: int = 3,
        heads: int | None = None,
        hidden: int | None = None,
        patch: int = 2,
        channels: int = 64,
        blocks: int = 1,
        groups: int | None = None,
        embedding: int | None = None,
        condition: int | None = None,
        positions: Literal["sincos", "rope"] = "sincos",
        mlp: Mlp = "glu",
        qk_norm: bool = False,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        time: Time = "auto",
        null_class: bool = False,
        attention: Choice = "auto",
    ) -> None:
        super().__init__(signature)
        if len(signature.shape) != 3:
            raise IncompatibleError(
                f"uvit needs images (H, W, C), not data of shape {signature.shape}. Use 'dit'."
            )
        embedding = channels if embedding is None else embedding
        condition = channels if condition is None else condition
        heads, hidden = heads_of(width, heads), hidden_of(width, hidden)
        check_sizes(
            width=width,
            depth=depth,
            hidden=hidden,
            channels=channels,
            embedding=embedding,
            condition=condition,
        )
        check_rates(dropout=dropout, attention_dropout=attention_dropout)
        if blocks < 0:
            raise ConfigError(f"blocks: {blocks} is not at least 0")
        groups = groups_of(channels, groups)
        self.grid = patch_grid("uvit", signature, patch)
        self.patch, self.groups = patch, groups

        self.values = Values(signature, embedding)
        self.null_class = null_class
        self.condition = Condition(signature, condition, time, null_class)
        self.stem = Conv2d(self.values.features, channels, 3)
        self.way_in = nn.ModuleList(
            ResidualBlock(channels, channels, groups=groups, dropout=dropout) for _ in range(blocks)
        )
        self.to_tokens = Linear(patch * patch * channels, width)
        self.transformer = Transformer(
            positions_of(positions, self.grid, width, heads),
            width=width,
            heads=heads,
            hidden=hidden,
            depth=depth,
            condition=condition,
            mlp=mlp,
            qk_norm=qk_norm,
            dropout=dropout,
            attention_dropout=attention_dropout,
            attention=attention_of(attention),
        )
        self.to_pixels = Linear(width, patch * patch * channels, gain=0)
        self.way_out = nn.ModuleList(
            ResidualBlock(2 * channels, channels, groups=groups, dropout=dropout)
            for _ in range(blocks + 1)
        )
        self.head = Conv2d(channels, out_features(signature), 3, gain=0)
        norms = [block.modulation_width for block in (*self.way_in, *self.way_out)]
        self.modulation_widths = [*norms, 2 * channels]
        self.told = Linear(condition, sum(self.modulation_widths), gain=0)  # of all norms

    def forward(self, z: Tensor, log_snr: Tensor | None, cond: Tensor | None) -> Tensor:
        run = block_runner(self.checkpoint_activations)
        c = self.condition(z, log_snr, cond)  # [B, condition]
        values = self.values(z, log_snr).to(c.dtype)  # [B, H, W, C * E]
        h = self.stem(values.permute(0, 3, 1, 2).contiguous())  # [B, channels, H, W] from here on
        *to_blocks, to_head = (
            self.told(c).to(h.dtype).split_with_sizes(self.modulation_widths, dim=1)
        )

        stack = [h]
        for block, to_block in zip(self.way_in, to_blocks, strict=False):
            h = run(block, h, to_block)
            stack.append(h)
        h = self._pixels(self.transformer(self._tokens(h), c, run))
        for block, to_block in zip(self.way_out, to_blocks[len(self.way_in) :], strict=True):
            h = run(block, torch.cat([h, stack.pop()], dim=1), to_block)
        h = F.silu(conditional_group_norm(h, to_head, self.groups))
        out: Tensor = self.head(h)  # [B, C * V, H, W]
        return out.permute(0, 2, 3, 1).reshape(len(z), *out_shape(self.signature))

    def _tokens(self, h: Tensor) -> Tensor:
        """[B, channels, H, W] -> [B, N, width]: each patch through one matrix."""
        (rows, columns), p = self.grid, self.patch
        patches = h.reshape(len(h), -1, rows, p, columns, p).permute(0, 2, 4, 3, 5, 1)
        tokens: Tensor = self.to_tokens(patches.reshape(len(h), rows * columns, -1))
        return tokens

    def _pixels(self, tokens: Tensor) -> Tensor:
        """[B, N, width] -> [B, channels, H, W]."""
        (rows, columns), p = self.grid, self.patch
        patches: Tensor = self.to_pixels(tokens).view(len(tokens), rows, columns, p, p, -1)
        return patches.permute(0, 5, 1, 3, 2, 4).reshape(len(tokens), -1, rows * p, columns * p)

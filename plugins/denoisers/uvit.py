"""uvit: residual blocks around a DiT, the paper's denoiser.

    values -> conv -> n residual blocks -> DiT on patches -> n + 1 residual blocks -> norm -> conv

The first convolution and the n blocks after it keep their outputs on a stack; each block on the
way out takes the last of them beside its input. What the DiT says *replaces* its input: the way
around it is the stack. Shi et al. 2024 (MD4) have this network; Shi & Titsias, whose table of
hyperparameters the presets ``imagenet64-204m`` and ``imagenet64-324m`` follow, gate its MLPs and
take the time away from it. The defaults here are a network for small images.
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
from .transformer import Mlp, Transformer, check_rates, check_sizes, heads_of, hidden_of, how_to_run
from .values import Values, out_features, out_shape, patch_grid


class UViT(Denoiser):
    """Residual blocks around a DiT, for images.

    ``width``, ``depth``, ``heads``, ``hidden``: of the transformer (``hidden`` of its MLP; by
    default 8/3 of the width). ``channels``, ``blocks``, ``groups``: of the residual part, with
    ``blocks`` on the way in and one more on the way out, and ``groups`` of its norms (by default
    32, or what of it divides ``channels``). ``embedding`` and ``condition``: how wide
    a token's and the condition's vectors are (by default as ``channels``). ``dropout`` is that of
    residual blocks and of what the transformer's attentions and MLPs say; ``attention_dropout``
    that of the attention's weights.
    """

    takes_level_per_position = True
    checkpoint_activations: bool = False
    """Set by a run: keep only the blocks' inputs for the backward pass, and recompute the rest."""

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
                f"uvit is for images (H, W, C) and the data are of shape {signature.shape}; "
                "'dit' serves sequences"
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
        self.told_widths = [b.told_width for b in (*self.way_in, *self.way_out)] + [2 * channels]
        self.told = Linear(condition, sum(self.told_widths), gain=0)  # all norms at once

    def forward(self, z: Tensor, log_snr: Tensor | None, cond: Tensor | None) -> Tensor:
        run = how_to_run(self.checkpoint_activations)
        c = self.condition(z, log_snr, cond)  # [B, condition]
        values = self.values(z, log_snr).to(c.dtype)  # [B, H, W, C * E]
        h = self.stem(values.permute(0, 3, 1, 2).contiguous())  # [B, channels, H, W] from here on
        told = self.told(c).to(h.dtype).split_with_sizes(self.told_widths, dim=1)
        to_in, to_out, to_head = told[: len(self.way_in)], told[len(self.way_in) : -1], told[-1]

        stack = [h]
        for block, to_block in zip(self.way_in, to_in, strict=True):
            h = run(block, h, to_block)
            stack.append(h)
        h = self._pixels(self.transformer(self._tokens(h), c, run))
        for block, to_block in zip(self.way_out, to_out, strict=True):
            h = run(block, torch.cat([h, stack.pop()], dim=1), to_block)
        h = F.silu(conditional_group_norm(h, to_head, self.groups))
        said: Tensor = self.head(h)  # [B, C * V, H, W]
        return said.permute(0, 2, 3, 1).reshape(len(z), *out_shape(self.signature))

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

"""dit: the transformer alone, on patches of images or on sequences.

    values -> one matrix -> blocks -> norm -> one matrix, zero at first

(Peebles & Xie 2023.) On sequences positions are one-dimensional and a patch is a run of
neighbouring tokens, one by default.
"""

from __future__ import annotations

import math
from typing import Literal

from elbowroom import Denoiser, Signature
from torch import Tensor

from .attention import Choice, attention as attention_of
from .condition import Condition, Time
from .layers import Linear
from .positions import positions_of
from .transformer import (
    Mlp,
    Transformer,
    block_runner,
    check_rates,
    check_sizes,
    heads_of,
    hidden_of,
)
from .values import LinearByPosition, Values, out_features, out_shape, patch_grid


class DiT(Denoiser):
    """The transformer alone, for images and sequences.

    ``hidden`` is the MLP's width (by default 8/3 of ``width``), ``patch`` the side of a patch (by
    default 2 for images, 1 for sequences); ``embedding`` and ``condition`` are the widths of a
    token's and the condition's vectors (by default ``width``). ``positions`` are ``rope`` for text
    and ``sincos`` for everything else, where each position has a meaning (a pixel, a column
    of a table). ``dropout`` applies to the outputs of attentions and MLPs,
    ``attention_dropout`` to the attention's weights.
    """

    takes_level_per_position = True
    checkpoint_activations: bool = False
    """Set by a run: store only the blocks' inputs for the backward pass and recompute the rest."""

    def __init__(
        self,
        signature: Signature,
        *,
        width: int = 128,
        depth: int = 4,
        heads: int | None = None,
        hidden: int | None = None,
        patch: int | None = None,
        embedding: int | None = None,
        condition: int | None = None,
        positions: Literal["auto", "sincos", "rope"] = "auto",
        mlp: Mlp = "glu",
        qk_norm: bool = False,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        time: Time = "auto",
        null_class: bool = False,
        attention: Choice = "auto",
    ) -> None:
        super().__init__(signature)
        image = len(signature.shape) == 3
        embedding = width if embedding is None else embedding
        condition = width if condition is None else condition
        check_sizes(width=width, depth=depth, embedding=embedding, condition=condition)
        check_rates(dropout=dropout, attention_dropout=attention_dropout)
        self.patch = (2 if image else 1) if patch is None else patch
        self.grid = patch_grid("dit", signature, self.patch)
        heads, hidden = heads_of(width, heads), hidden_of(width, hidden)
        if positions == "auto":
            positions = "rope" if signature.text else "sincos"

        self.values = Values(signature, embedding)
        self.null_class = null_class
        self.condition = Condition(signature, condition, time, null_class)
        places = self.patch ** len(self.grid)  # in one patch
        self.to_tokens = Linear(places * self.values.features, width)
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
        out = places * out_features(signature)
        self.head = (
            Linear(width, out, gain=0)
            if signature.sizes is None
            else LinearByPosition(math.prod(self.grid), width, out)
        )

    def forward(self, z: Tensor, log_snr: Tensor | None, cond: Tensor | None) -> Tensor:
        c = self.condition(z, log_snr, cond)  # [B, condition]
        values = self.values(z, log_snr).to(c.dtype)
        tokens = self.to_tokens(self._into_patches(values))  # [B, N, width]
        run = block_runner(self.checkpoint_activations)
        out = self.head(self.transformer(tokens, c, run))  # [B, N, places * out]
        return self._out_of_patches(out).reshape(len(z), *out_shape(self.signature))

    def _into_patches(self, x: Tensor) -> Tensor:
        """[B, *sides, F] -> [B, N, places * F]."""
        if len(self.grid) == 2 and self.patch > 1:
            (rows, columns), p = self.grid, self.patch
            x = x.reshape(len(x), rows, p, columns, p, -1).transpose(2, 3)
        return x.reshape(len(x), math.prod(self.grid), -1)

    def _out_of_patches(self, x: Tensor) -> Tensor:
        """[B, N, places * F] -> [B, *sides, F], not yet of that shape."""
        if len(self.grid) == 1 or self.patch == 1:
            return x
        (rows, columns), p = self.grid, self.patch
        return x.view(len(x), rows, columns, p, p, -1).transpose(2, 3)

"""Load MD4's parameters into `uvit`.

MD4 (Shi et al. 2024) is written in Flax. Its parameters come as a flat mapping from names such as
``UNet5DWrapper_0/UNet_0/DiT_0/blocks_0/attn/wq/kernel`` to arrays, optionally with the prefix
``param:``, as in an ``.npz`` file with other arrays. All sizes are determined by the arrays'
shapes, except for the number of heads.

    weights = numpy.load("md4.npz")
    denoiser = denoiser_from_flax(weights, heads=12)
    logits = denoiser(z, None, y)          # z [B, H, W, C] integers -> [B, H, W, C, V]

Layouts: MD4's tokens are [B, H, W, C] and its logits [B, H, W, C, V], as ours are. A Flax kernel
is [in, out] and a convolution's [row, column, in, out]; ours are [out, in] and
[out, in, row, column].
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from elbowroom import ConfigError, Signature
from elbowroom.plugins.denoisers.uvit import UViT
from torch import Tensor


def denoiser_from_flax(
    params: Mapping[str, Any],
    heads: int,
    *,
    size: tuple[int, int] | None = None,
    dropout: float = 0.1,
    attention_dropout: float = 0.1,
) -> UViT:
    """MD4's network as a `uvit`, in evaluation mode.

    ``size`` is the images' (H, W). It is determined by the table of positions if there is one (as a
    square), and must be given for a network with rotary positions. The dropout rates (by default
    the paper's) matter only for training.
    """
    flax = _Flax(params)
    unet = flax.folder_of("DiT_0/x_embedder/proj/kernel")
    dit = f"{unet}DiT_0/"

    states, embedding = flax.shape("tok/embedding")
    classes, condition = flax.shape("class_embed/embedding")
    _, _, features, channels = flax.shape(f"{unet}Conv_0/kernel")
    patch, _, _, width = flax.shape(f"{dit}x_embedder/proj/kernel")
    _, hidden = flax.shape(f"{dit}blocks_0/mlp/w1/kernel")
    image_channels = features // embedding
    out_states = flax.shape(f"{unet}Conv_1/kernel")[3] // image_channels
    depth = flax.count(f"{dit}blocks_{{}}/Dense_0/kernel")
    blocks = (flax.count(f"{unet}ResBlock_{{}}/Conv_0/kernel") - 1) // 2  # n in, n + 1 out
    table = flax.take(f"{dit}pos_embed") if f"{dit}pos_embed" in flax else None

    network = UViT(
        Signature(
            shape=(*_size(size, table, patch), image_channels),
            in_states=states,
            out_states=out_states,
            classes=classes,
            needs_level=False,
        ),
        width=width,
        depth=depth,
        heads=heads,
        hidden=hidden,
        patch=patch,
        channels=channels,
        blocks=blocks,
        embedding=embedding,
        condition=condition,
        positions="rope" if table is None else "sincos",
        dropout=dropout,
        attention_dropout=attention_dropout,
        time="no",
    )
    norms = []  # of the residual part
    state = {
        "values.embedding.weight": flax.take("tok/embedding"),
        "condition.label.weight": flax.take("class_embed/embedding"),
        **flax.conv("stem", f"{unet}Conv_0"),
    }
    for i in range(2 * blocks + 1):
        theirs = f"{unet}ResBlock_{i}"
        ours = f"way_in.{i}" if i < blocks else f"way_out.{i - blocks}"
        norms += [f"{theirs}/CondGroupNorm_{j}/Dense_0" for j in (0, 1)]
        state |= flax.conv(f"{ours}.first", f"{theirs}/Conv_0")
        state |= flax.conv(f"{ours}.second", f"{theirs}/Conv_1")
        if i >= blocks:  # a 1x1 convolution, a matrix in MD4
            skip = flax.linear(f"{ours}.skip", f"{theirs}/Dense_0")
            state |= skip | {f"{ours}.skip.weight": skip[f"{ours}.skip.weight"][:, :, None, None]}
    state |= flax.linear("told", *norms, f"{unet}CondGroupNorm_0/Dense_0")
    state |= flax.conv("head", f"{unet}Conv_1")

    # MD4 embeds patches by a convolution, uvit by a matrix on (row, column, channel).
    state["to_tokens.weight"] = flax.take(f"{dit}x_embedder/proj/kernel").flatten(0, 2).T
    state["to_tokens.bias"] = flax.take(f"{dit}x_embedder/proj/bias")
    modulation = [f"{dit}blocks_{i}/Dense_0" for i in range(depth)] + [f"{dit}final_layer/Dense_0"]
    state |= flax.linear("transformer.told", *modulation)
    for i in range(depth):
        theirs, ours = f"{dit}blocks_{i}", f"transformer.blocks.{i}"
        state |= flax.linear(f"{ours}.qkv", *(f"{theirs}/attn/w{x}" for x in "qkv"))
        state |= flax.linear(f"{ours}.out", f"{theirs}/attn/wo")
        state |= flax.linear(f"{ours}.w31", f"{theirs}/mlp/w3", f"{theirs}/mlp/w1")
        state |= flax.linear(f"{ours}.w2", f"{theirs}/mlp/w2")
    state |= flax.linear("to_pixels", f"{dit}final_layer/linear")
    if table is not None:
        state["transformer.positions.table"] = table
    flax.refuse_leftovers()
    network.load_state_dict(state)
    return network.eval()


def _size(size: tuple[int, int] | None, table: Tensor | None, patch: int) -> tuple[int, int]:
    if size is not None:
        return size
    if table is None:
        raise ConfigError("these MD4 parameters have no table of positions: give size=(H, W)")
    tokens = len(table)
    side = math.isqrt(tokens)
    if side * side != tokens:
        raise ConfigError(f"{tokens} positions are not a square: give size=(H, W)")
    return patch * side, patch * side


class _Flax:
    """The parameters, with a record of those not used yet."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        names = list(params)
        marked = [name for name in names if name.startswith("param:")]
        self._arrays = {name.removeprefix("param:"): params[name] for name in marked or names}
        self._left = set(self._arrays)

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def _array(self, name: str) -> np.ndarray[Any, Any]:
        if name not in self._arrays:
            raise ConfigError(f"MD4 parameters without {name!r}: not the network of uvit")
        return np.asarray(self._arrays[name])

    def folder_of(self, ending: str) -> str:
        """The part of a name before ``ending``."""
        found = [name for name in self._arrays if name.endswith(ending)]
        if len(found) != 1:
            raise ConfigError(f"MD4 parameters have {len(found)} names that end in {ending!r}")
        return found[0].removesuffix(ending)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._array(name).shape)

    def count(self, pattern: str) -> int:
        """The number of names of a numbered pattern."""
        n = 0
        while pattern.format(n) in self._arrays:
            n += 1
        return n

    def take(self, name: str) -> Tensor:
        array = self._array(name)
        self._left.discard(name)
        return torch.from_numpy(array.astype(np.float32))

    def linear(self, ours: str, *theirs: str) -> dict[str, Tensor]:
        """One matrix of uvit from several of MD4, stacked."""
        stacked = {f"{ours}.weight": torch.cat([self.take(f"{n}/kernel").T for n in theirs])}
        if f"{theirs[0]}/bias" in self:
            stacked[f"{ours}.bias"] = torch.cat([self.take(f"{n}/bias") for n in theirs])
        return stacked

    def conv(self, ours: str, theirs: str) -> dict[str, Tensor]:
        kernel = self.take(f"{theirs}/kernel")  # [row, column, in, out]
        return {
            f"{ours}.weight": kernel.permute(3, 2, 0, 1),
            f"{ours}.bias": self.take(f"{theirs}/bias"),
        }

    def refuse_leftovers(self) -> None:
        if self._left:
            raise ConfigError(
                "MD4 parameters that uvit does not have: " + ", ".join(sorted(self._left))
            )

"""unet: diffusers' ``UNet2DModel``.

Convolutions at several resolutions with attention at all but the first (Ho et al. 2020; Ronneberger
et al. 2015). For processes with states, elements are embedded by a table shared by all channels,
and the outputs are logits. The last convolution is zero at first.

The U-Net expects a timestep from 0 to 1000, embedded by sinusoids of periods up to 60,000; lambda
is mapped to

    timestep = 40 (12.5 - lambda),

which maps 12.5 (nearly clean) to 0 and -12.5 (nearly noise) to 1000. Without the level as an input
the timestep is 0.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from elbowroom import ConfigError, Denoiser, ElbowroomError, IncompatibleError, Signature
from elbowroom.errors import require_package
from torch import Tensor, nn


class UNet(Denoiser):
    """diffusers' ``UNet2DModel`` for images.

    ``channels`` times each of ``multiples`` are the widths at each resolution, each half of the one
    before, with ``layers`` residual blocks. ``head`` is the width of an attention head, ``groups``
    the number of groups of each norm.
    """

    def __init__(
        self,
        signature: Signature,
        *,
        channels: int = 64,
        multiples: tuple[int, ...] = (1, 2, 2),
        layers: int = 2,
        head: int = 32,
        groups: int = 32,
        embedding: int | None = None,
        dropout: float = 0.1,
        time: Literal["auto", "yes", "no"] = "auto",
        null_class: bool = False,
    ) -> None:
        super().__init__(signature)
        _check(
            signature,
            channels=channels,
            multiples=multiples,
            layers=layers,
            head=head,
            groups=groups,
            dropout=dropout,
            null_class=null_class,
        )
        require_package("diffusers", "denoiser 'unet'", "diffusers")
        from diffusers import UNet2DModel

        height, width, elements = signature.shape
        states, classes = signature.in_states, signature.classes
        wide = channels if embedding is None else embedding
        if time not in ("auto", "yes", "no"):
            raise ConfigError(f"time: {time!r} is not one of 'auto', 'yes', 'no'")
        self.uses_level = signature.needs_level if time == "auto" else time == "yes"
        self.null_class = null_class
        self.embedding = None if states is None else nn.Embedding(states, wide)
        deeper = len(multiples) - 1
        make: Any = UNet2DModel  # it has no types
        self.unet: Any = make(
            sample_size=(height, width),
            in_channels=elements * (1 if states is None else wide),
            out_channels=elements * (signature.out_states or 1),
            block_out_channels=tuple(channels * m for m in multiples),
            down_block_types=("DownBlock2D", *["AttnDownBlock2D"] * deeper),
            up_block_types=(*["AttnUpBlock2D"] * deeper, "UpBlock2D"),
            layers_per_block=layers,
            attention_head_dim=head,
            norm_num_groups=groups,
            dropout=dropout,
            num_class_embeds=None if classes is None else classes + null_class,
        )
        nn.init.zeros_(self.unet.conv_out.weight)
        nn.init.zeros_(self.unet.conv_out.bias)

    @property
    def checkpoint_activations(self) -> bool:
        """Set by a run: recompute blocks in the backward pass instead of storing activations."""
        return bool(self.unet.is_gradient_checkpointing)

    @checkpoint_activations.setter
    def checkpoint_activations(self, wanted: bool) -> None:
        if wanted:
            self.unet.enable_gradient_checkpointing()
        else:
            self.unet.disable_gradient_checkpointing()

    def forward(self, z: Tensor, log_snr: Tensor | None, cond: Tensor | None) -> Tensor:
        if z.shape[1:] != self.signature.shape:
            raise ValueError(
                f"z has shape {list(z.shape)}, but the network was built for [B, "
                f"{', '.join(map(str, self.signature.shape))}]"
            )
        values = z.to(self.unet.dtype) if self.embedding is None else self.embedding(z).flatten(3)
        image = values.permute(0, 3, 1, 2).contiguous()  # [B, C * E, H, W]
        out: Tensor = self.unet(image, self._timestep(z, log_snr), self._labels(z, cond)).sample
        states = () if self.signature.out_states is None else (self.signature.out_states,)
        return out.permute(0, 2, 3, 1).reshape(*z.shape, *states)

    def _timestep(self, z: Tensor, log_snr: Tensor | None) -> Tensor:
        if not self.uses_level:
            return torch.zeros(len(z), device=z.device)
        if log_snr is None:
            raise ValueError("this network needs the level, but log_snr is None")
        return (40 * (12.5 - log_snr)).float()

    def _labels(self, z: Tensor, cond: Tensor | None) -> Tensor | None:
        classes = self.signature.classes
        if classes is None and cond is not None:
            raise ValueError("labels were given to a network without classes")
        if classes is None or cond is not None:
            return cond
        if not self.null_class:
            raise ElbowroomError(
                f"a network with {classes} classes needs labels unless it has 'null_class: true'"
            )
        return torch.full((len(z),), classes, device=z.device)


def _check(
    signature: Signature,
    *,
    channels: int,
    multiples: tuple[int, ...],
    layers: int,
    head: int,
    groups: int,
    dropout: float,
    null_class: bool,
) -> None:
    if len(signature.shape) != 3:
        raise IncompatibleError(
            f"unet needs images (H, W, C), not data of shape {signature.shape}. Use 'dit'."
        )
    if null_class and signature.classes is None:
        raise ConfigError("null_class: true needs data with classes")
    if not 0 <= dropout < 1:
        raise ConfigError(f"dropout: {dropout} is not in [0, 1)")
    sizes = {"channels": channels, "layers": layers, "head": head, "groups": groups}
    for name, size in sizes.items():
        if size < 1:
            raise ConfigError(f"{name}: {size} is not at least 1")
    if not multiples or min(multiples) < 1:
        raise ConfigError(f"multiples: {multiples} must be one or more integers of at least 1")
    for width in (channels * m for m in multiples):
        for name, part in (("groups", groups), ("head", head)):
            if width % part:
                raise ConfigError(f"{name}: {width} channels do not divide by {part}")
    height, width, _ = signature.shape
    deepest = 2 ** (len(multiples) - 1)
    if height % deepest or width % deepest:
        raise IncompatibleError(
            f"unet: an image of {height} x {width} cannot be halved {len(multiples) - 1} times; "
            "use fewer 'multiples'"
        )

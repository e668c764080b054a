"""Classifier-free guidance (Ho & Salimans 2021): towards the label, away from no label.

    output = free + scale (labelled - free)

where *free* is the network's output for the null label, which is one past the last class
(cond == classes). scale = 1 is the model itself, 0 the model without labels. For logits this
is p(x | z) (p(x | z, y) / p(x | z))^scale, normalised; every parametrisation of Gaussian diffusion
is linear in the expected data, so there it moves that. The network must have been trained with
label dropout, or its null label means nothing.
"""

from __future__ import annotations

import attrs
import torch
from torch import Tensor, nn

from ..contracts.guidance import Guidance
from ..errors import ElbowroomError


@attrs.frozen
class ClassifierFree(Guidance):
    """Classifier-free guidance with a constant scale."""

    scale: float = attrs.field(default=2.0, validator=attrs.validators.ge(0))

    def __call__(self, denoiser: nn.Module, classes: int | None) -> nn.Module:
        return denoiser if self.scale == 1 else Guided(denoiser, classes, self.scale)


class Guided(nn.Module):
    """A guided denoiser. One call evaluates the network with and without the label."""

    def __init__(self, denoiser: nn.Module, classes: int | None, scale: float) -> None:
        super().__init__()
        if classes is None:
            raise ElbowroomError(
                f"guidance {scale:g} needs labels, and this model's data has none: set it to 1"
            )
        self.denoiser = denoiser
        self.null_label = classes
        self.scale = scale

    def forward(self, z: Tensor, log_snr: Tensor | None, cond: Tensor | None) -> Tensor:
        """The denoiser's output; a sample with the null label is not guided."""
        if cond is None:
            raise ElbowroomError(
                f"guidance {self.scale:g} needs a label for each sample: give labels, or set "
                "guidance to 1"
            )
        null = torch.full_like(cond, self.null_label)
        both = torch.cat([cond, null])
        level = None if log_snr is None else torch.cat([log_snr, log_snr])
        try:
            output: Tensor = self.denoiser(torch.cat([z, z]), level, both)
        except IndexError as error:
            raise ElbowroomError(
                f"guidance {self.scale:g} evaluates the network with the label {self.null_label}, "
                f"'no label', which failed ({error}): train with label dropout and a network that "
                "has that label, or set guidance to 1"
            ) from error
        labelled, free = output.chunk(2)
        return torch.lerp(free, labelled, self.weight(labelled, log_snr))

    def weight(self, output: Tensor, log_snr: Tensor | None) -> Tensor | float:
        """The weight of the labelled output, broadcast over the output [B, ...]."""
        return self.scale

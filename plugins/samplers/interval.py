"""Classifier-free guidance at some noise levels only (Kynkäänniemi et al. 2024).

    output = free + scale (labelled - free)    where low <= log-SNR <= high
    output = labelled                          elsewhere

At high noise guidance reduces diversity, at low noise it has little effect. *free* is the output
for the label one past the last class; both come from one call. On a CPU, a batch whose levels all
lie outside is evaluated without *free*; elsewhere reading the levels would synchronise with the
device.
"""

from __future__ import annotations

import attrs
from attrs.validators import ge
from elbowroom import Guidance
from elbowroom.objective import Guided
from torch import Tensor, nn


def inside(log_snr: Tensor, low: float, high: float) -> Tensor:
    """[B] which levels lie in the interval; of levels per position, those of the noisiest."""
    log_snr = log_snr.flatten(1).amin(1) if log_snr.ndim > 1 else log_snr
    return (log_snr >= low) & (log_snr <= high)


def where_inside(
    scale: float, output: Tensor, log_snr: Tensor | None, low: float, high: float
) -> Tensor | float:
    """``scale`` inside (or without a level), else 1, broadcast over the output [B, ...]."""
    if log_snr is None:
        return scale
    weight = output.new_ones(len(output)).masked_fill(inside(log_snr, low, high), scale)
    return weight.reshape(-1, *[1] * (output.ndim - 1))


@attrs.frozen
class Interval(Guidance):
    """``scale`` between the log-SNRs ``low`` and ``high``; none if low > high."""

    scale: float = attrs.field(default=2.0, validator=ge(0))
    low: float = -2.0
    high: float = 4.0

    def __call__(self, denoiser: nn.Module, classes: int | None) -> nn.Module:
        if self.scale == 1 or self.low > self.high:
            return denoiser
        return _GuidedInside(denoiser, classes, self.scale, self.low, self.high)


class _GuidedInside(Guided):
    def __init__(
        self, denoiser: nn.Module, classes: int | None, scale: float, low: float, high: float
    ) -> None:
        super().__init__(denoiser, classes, scale)
        self.low, self.high = low, high

    def forward(self, z: Tensor, log_snr: Tensor | None, cond: Tensor | None) -> Tensor:
        if (
            log_snr is not None
            and log_snr.device.type == "cpu"
            and not bool(inside(log_snr, self.low, self.high).any())
        ):
            output: Tensor = self.denoiser(z, log_snr, cond)
            return output
        return super().forward(z, log_snr, cond)

    def weight(self, output: Tensor, log_snr: Tensor | None) -> Tensor | float:
        return where_inside(self.scale, output, log_snr, self.low, self.high)

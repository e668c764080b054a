"""Autoguidance: away from a worse version of the model (Karras et al. 2024).

    output = guide + scale (model - guide)

The guide is another run on the same data and process, with a smaller network or an earlier
checkpoint, evaluated at the same z, level and label. Labels and label dropout are not needed.
scale = 1 is the model itself. For logits this is p (p / p_guide)^(scale - 1), normalised.
"""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import attrs
import torch
from attrs.validators import ge
from elbowroom import Diffusion, ElbowroomError, Guidance, IncompatibleError, Process
from elbowroom.runs import load_run
from torch import Tensor, nn

from .interval import where_inside


@attrs.frozen(slots=False)  # no slots: the guide is kept by cached_property
class Autoguidance(Guidance):
    """Guidance by the averaged weights of ``run``, between the log-SNRs ``low`` and ``high``.

    The run is loaded like any other: code that it names is refused without ``--trust``.
    """

    needs_null_label: ClassVar[bool] = False

    run: Path
    scale: float = attrs.field(default=2.0, validator=ge(0))
    checkpoint: str = "best"  # or last, or a step
    low: float = -math.inf
    high: float = math.inf

    @property
    def is_off(self) -> bool:
        """Whether the guided model is the model itself."""
        return self.scale == 1 or self.low > self.high

    @cached_property
    def guide(self) -> Diffusion:
        """The worse model, on the CPU until it is first called."""
        model = load_run(self.run, checkpoint=self.checkpoint, device="cpu").model
        return model.requires_grad_(False)

    def check_process(self, process: Process) -> None:
        if self.is_off:
            return
        theirs = self.guide.process
        ours, form = process.data, theirs.data
        alike = (ours.shape, ours.levels, ours.classes) == (form.shape, form.levels, form.classes)
        if not alike or theirs.bind(ours) != process:
            raise IncompatibleError(
                f"autoguidance: the guide {self.run} has another process or other data ({theirs}) "
                f"than the model ({process}). Both must be the same."
            )

    def __call__(self, denoiser: nn.Module, classes: int | None) -> nn.Module:
        return denoiser if self.is_off else _AwayFrom(denoiser, self)


class _AwayFrom(nn.Module):
    """A denoiser extrapolated away from the guide's."""

    def __init__(self, denoiser: nn.Module, how: Autoguidance) -> None:
        super().__init__()
        self.denoiser, self.how = denoiser, how

    def forward(self, z: Tensor, log_snr: Tensor | None, cond: Tensor | None) -> Tensor:
        output: Tensor = self.denoiser(z, log_snr, cond)
        network = self.how.guide.denoiser.to(z.device)
        worse: Tensor = network(z, log_snr, cond)
        if worse.shape != output.shape:
            raise ElbowroomError(
                f"autoguidance: the guide {self.how.run} has outputs of shape "
                f"{tuple(worse.shape)}, the model {tuple(output.shape)}"
            )
        how = self.how
        weight = where_inside(how.scale, output, log_snr, how.low, how.high)
        return torch.lerp(worse.to(output.dtype), output, weight)

"""What samplers of absorbing processes share: which tokens are hidden, and when they appear."""

from __future__ import annotations

from typing import cast

import attrs
import torch
from elbowroom import Absorbing, Level, Process, Step, Trajectory
from torch import Tensor

NEEDS = frozenset({"categorical", "absorbing"})
"""The traits these samplers ask for."""


def mask_of(process: Process) -> int:
    """The state that means *hidden*, which the trait ``absorbing`` promises."""
    return cast("Absorbing", process).mask


@attrs.frozen(eq=False)
class Marked:
    """Where tokens are marked. An accelerator is waited for once, to find all of it."""

    rows: Tensor  # [R] the samples that have a marked token
    places: tuple[Tensor, ...]  # indices of the marked tokens in [B, *D]
    among_rows: tuple[Tensor, ...]  # the same tokens in [R, *D]

    @classmethod
    def of(cls, marks: Tensor) -> Marked:
        """Of a mask [B, *D]."""
        seen = marks.cpu()
        has_one = seen.flatten(1).any(1)  # [B]
        places = seen.nonzero(as_tuple=True)
        number = has_one.cumsum(0) - 1  # of a sample among those that have one
        among_rows = (number[places[0]], *places[1:])
        return cls(
            has_one.nonzero().squeeze(1).to(marks.device),
            tuple(index.to(marks.device) for index in places),
            tuple(index.to(marks.device) for index in among_rows),
        )


def revealed_share(process: Process, start: Level, to: Level) -> Tensor:
    """(a_s - a_1)/(1 - a_1): the share of tokens revealed on the way from ``start`` to ``to``."""
    return process.step_price(start.log_snr, to.log_snr)


def stay_hidden(path: Trajectory, step: Step, hidden: Tensor, last: bool) -> Tensor:
    """[B] how many of the tokens hidden at the start are still hidden after this step."""
    if last:
        return torch.zeros(len(hidden), dtype=torch.int64, device=hidden.device)
    at_start = (path.first == mask_of(path.process)).flatten(1).sum(1)
    share = step.to.noise_share / step.start.noise_share  # one number
    return torch.minimum((at_start * share).round().long(), hidden.flatten(1).sum(1))

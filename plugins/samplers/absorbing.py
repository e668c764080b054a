"""Functions shared by samplers of absorbing processes."""

from __future__ import annotations

from typing import cast

import attrs
import torch
from elbowroom import Absorbing, Level, Process, Step, Trajectory, draw_categorical
from torch import Tensor

NEEDS = frozenset({"categorical", "absorbing"})
"""The traits these samplers require."""


def mask_of(process: Process) -> int:
    """The mask state of a process with the trait ``absorbing``."""
    return cast("Absorbing", process).mask


@attrs.frozen(eq=False)
class Marked:
    """Indices of marked tokens, found with one synchronisation with the device."""

    rows: Tensor  # [R] the samples that have a marked token
    places: tuple[Tensor, ...]  # indices of the marked tokens in [B, *D]
    among_rows: tuple[Tensor, ...]  # the same tokens in [R, *D]

    @classmethod
    def of(cls, marks: Tensor) -> Marked:
        """The tokens where the booleans ``marks`` [B, *D] are true."""
        on_cpu = marks.cpu()
        has_one = on_cpu.flatten(1).any(1)  # [B]
        places = on_cpu.nonzero(as_tuple=True)
        number = has_one.cumsum(0) - 1  # of a sample among those that have one
        among_rows = (number[places[0]], *places[1:])
        return cls(
            has_one.nonzero().squeeze(1).to(marks.device),
            tuple(index.to(marks.device) for index in places),
            tuple(index.to(marks.device) for index in among_rows),
        )


def unmask(path: Trajectory, z: Tensor, level: Level, marks: Tensor, u: Tensor) -> Tensor:
    """z with the tokens ``marks`` [B, *D] drawn by uniforms u; calls the network for their rows."""
    due = Marked.of(marks)
    if not len(due.rows):
        return z
    prediction = path.predict(z[due.rows], level, due.rows)
    return z.index_put(due.places, draw_categorical(prediction.at(due.among_rows), u[due.places]))


def revealed_share(process: Process, start: Level, to: Level) -> Tensor:
    """(a_s - a_1)/(1 - a_1): the share of tokens unmasked between ``start`` and ``to``."""
    return process.step_price(start.log_snr, to.log_snr)


def unmask_counts(path: Trajectory, step: Step, masked: Tensor) -> Tensor:
    """[B] how many of the ``masked`` tokens [B, *D] the schedule unmasks in this step."""
    now = masked.flatten(1).sum(1)
    if step.progress == 1:
        return now
    at_start = (path.first == mask_of(path.process)).flatten(1).sum(1)
    share = step.to.noise_share / step.start.noise_share  # one number
    return now - torch.minimum((at_start * share).round().long(), now)

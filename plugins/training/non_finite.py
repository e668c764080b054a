"""Non-finite losses and gradients: stop before they reach the weights, and write a report.

A loss or gradient that is infinite or NaN sets a flag on the device. The optimiser skips the
update while the flag is set, and it stays set, so no later step changes the weights either. On a
CPU the flag is read after every step; on a GPU at the next logging step or checkpoint, because
reading it synchronises. In both cases the weights are those *before* the bad step, no checkpoint
contains a bad value, and the step can be repeated:

    RUN/non_finite/step-000000123/
        model.safetensors    the weights before the step
        report.json          step, examples, levels, losses, names of the non-finite gradients

Noise, order and dropout are keyed by (seed, step), so these two files reproduce it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import torch
from elbowroom import ElbowroomError
from elbowroom.files import atomic_folder, remove_folder
from elbowroom.runs import write_tensors
from torch import Tensor

from .ranks import Ranks


class NonFiniteError(ElbowroomError):
    """A loss or gradient is not finite; ``dump`` is the folder that reproduces it."""

    exit_code: ClassVar[int] = 3

    def __init__(self, message: str, step: int, dump: Path | None) -> None:
        super().__init__(message)
        self.step, self.dump = step, dump


class NonFiniteGuard:
    """Checks loss and gradient norm of each step from ``start``, without synchronising."""

    def __init__(self, start: int, ranks: Ranks) -> None:
        self.start, self.ranks = start, ranks
        self._tripped = torch.zeros((), device=ranks.device)  # 0 or 1, once 1 always 1
        self._good = torch.zeros((), dtype=torch.int64, device=ranks.device)

    def flag(self, loss: Tensor, norm: Tensor) -> Tensor:
        """Return 1 if this step or an earlier one is not finite, else 0, on the device."""
        bad = (~torch.isfinite(loss.detach() + norm)).float()
        self._tripped = torch.maximum(self._tripped, self.ranks.largest(bad))
        self._good += self._tripped == 0
        return self._tripped

    def first_bad(self) -> int | None:
        """Return the first non-finite step, or None. Synchronises with the device."""
        return self.start + int(self._good) if bool(self._tripped) else None


def dump(
    folder: Path, step: int, weights: dict[str, Tensor], measurements: dict[str, Any]
) -> Path | None:
    """Write the files that reproduce a step; None if they cannot be written."""
    path = folder / f"step-{step:09d}"
    try:
        if path.exists():
            remove_folder(path)
        folder.mkdir(exist_ok=True)
        with atomic_folder(path) as aside:
            write_tensors(aside / "model.safetensors", weights)
            (aside / "report.json").write_text(json.dumps(measurements, indent=1))
    except Exception:  # the non-finite step is the error to report
        return None
    return path


def numbers(values: Tensor) -> list[float | str]:
    """Numbers as JSON values; inf and nan as strings."""
    flat = values.detach().double().flatten().tolist()
    return [v if abs(v) < float("inf") else str(v) for v in flat]


def not_finite(gradients: Iterable[tuple[str, Tensor]]) -> list[str]:
    """Names of the gradients that are not finite everywhere."""
    return [name for name, g in gradients if not bool(torch.isfinite(g).all())]

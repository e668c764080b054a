"""Non-finite numbers: stop before they reach the weights, and keep what reproduces them.

A loss or gradient that is infinite or NaN is noticed on the device: the fused optimiser is handed
a flag and leaves everything as it was, and the flag stays up, so no later step changes anything
either. On a CPU the flag is read at once; on a GPU at the next logging step or checkpoint, because
reading it makes the GPU wait. Either way the weights are still those *before* the bad step, nothing
wrong is ever saved, and running that step again shows the fault:

    RUN/fault/step-000000123/
        model.safetensors    the weights before the step
        fault.json           step, examples, levels, losses, and the gradients that are not finite

Noise, order and dropout are keyed by (seed, step), so these two files are all it takes.
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
    """A loss or gradient that is not finite; ``dump`` is the folder that reproduces it."""

    exit_code: ClassVar[int] = 3

    def __init__(self, message: str, step: int, dump: Path | None) -> None:
        super().__init__(message)
        self.step, self.dump = step, dump


class NonFiniteGuard:
    """Watches the losses and gradients of each step, from step ``start`` on."""

    def __init__(self, start: int, ranks: Ranks) -> None:
        self.start, self.ranks = start, ranks
        self._tripped = torch.zeros((), device=ranks.device)  # 0 or 1, once 1 always 1
        self._good = torch.zeros((), dtype=torch.int64, device=ranks.device)

    def flag(self, loss: Tensor, norm: Tensor) -> Tensor:
        """1 if this step or one before it is not finite, else 0: what the optimiser is handed."""
        bad = (~torch.isfinite(loss.detach() + norm)).float()
        self._tripped = torch.maximum(self._tripped, self.ranks.largest(bad))
        self._good += self._tripped == 0
        return self._tripped

    def first_bad(self) -> int | None:
        """The first step that was not finite; the device is waited for."""
        return self.start + int(self._good) if bool(self._tripped) else None


def dump(
    folder: Path, step: int, weights: dict[str, Tensor], measurements: dict[str, Any]
) -> Path | None:
    """Write what reproduces the fault; None where even that cannot be written."""
    path = folder / f"step-{step:09d}"
    try:
        if path.exists():
            remove_folder(path)
        folder.mkdir(exist_ok=True)
        with atomic_folder(path) as aside:
            write_tensors(aside / "model.safetensors", weights)
            (aside / "fault.json").write_text(json.dumps(measurements, indent=1))
    except Exception:  # the fault itself is what the user must hear of, whatever the disk says
        return None
    return path


def numbers(values: Tensor) -> list[float | str]:
    """Numbers as JSON can say them: those it has no word for as text."""
    flat = values.detach().double().flatten().tolist()
    return [v if abs(v) < float("inf") else str(v) for v in flat]


def not_finite(gradients: Iterable[tuple[str, Tensor]]) -> list[str]:
    """The names of the gradients with a number that is not finite."""
    return [name for name, g in gradients if not bool(torch.isfinite(g).all())]

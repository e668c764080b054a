"""What observers are told: one frozen object a hook, so that it can grow without breaking them.

Names of scalars: ``loss`` (what is minimised), ``bits_per_dim`` (the ELBO on training batches, its
boundary terms included), ``learning_rate``, ``gradient_norm``, ``images_per_second``, and in an
evaluation
``validation/bits_per_dim`` with ``validation/standard_error``. Curves: ``loss_by_level`` and
``elbo_by_level``, over lambda, in bits per dimension per unit of lambda: the area under the second
is the diffusion term, i.e. ``bits_per_dim`` less the boundary terms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from torch import Tensor


@attrs.frozen(eq=False)
class RunEvent:
    """Something happened in a run."""

    folder: Path
    step: int
    steps: int  # how many the run will take
    config: Mapping[str, Any]  # resolved
    scalars: Mapping[str, float] = attrs.Factory(dict)
    curves: Mapping[str, tuple[Tensor, Tensor]] = attrs.Factory(dict)  # name -> (x, y)
    images: Mapping[str, Tensor] = attrs.Factory(dict)  # name -> uint8 [H, W, C]
    reason: str = ""  # why a run ended: "finished", "interrupted" or "failed: ..."
    path: Path | None = None  # of the checkpoint that was saved
    doing: str = "training"  # what a run is at; "validating" between two steps
    device: str = "cpu"  # what it computes on
    texts: Mapping[str, Sequence[str]] = attrs.Factory(dict)  # name -> samples that are text

"""Events of a run, passed to observing hooks.

Scalars: ``loss`` (the training objective), ``bits_per_dim`` (the ELBO on training batches with its
boundary terms), ``learning_rate``, ``gradient_norm``, ``images_per_second``; in an evaluation
``validation/bits_per_dim`` and ``validation/standard_error``. Curves: ``loss_by_level`` and
``elbo_by_level`` over lambda, in bits per dimension per unit of lambda. The area under the second
is the diffusion term, i.e. ``bits_per_dim`` without the boundary terms.
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
    """An event of a run. Fields may be added in later versions."""

    folder: Path
    step: int
    steps: int  # of the whole run
    config: Mapping[str, Any]  # resolved
    scalars: Mapping[str, float] = attrs.Factory(dict)
    curves: Mapping[str, tuple[Tensor, Tensor]] = attrs.Factory(dict)  # name -> (x, y)
    images: Mapping[str, Tensor] = attrs.Factory(dict)  # name -> uint8 [H, W, C]
    reason: str = ""  # why a run ended: "finished", "interrupted" or "failed: ..."
    path: Path | None = None  # of the checkpoint that was saved
    doing: str = "training"  # or "validating"
    device: str = "cpu"  # type of the device
    texts: Mapping[str, Sequence[str]] = attrs.Factory(dict)  # name -> samples that are text

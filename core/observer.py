"""What observers are told: one frozen object a hook, so that it can grow without breaking them."""

from __future__ import annotations

from collections.abc import Mapping
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
    reason: str = ""  # why a run ended

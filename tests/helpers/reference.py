"""The numbers an independent implementation computed (30-digit arithmetic, and MD4's JAX code)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


@cache
def reference() -> Any:
    return json.loads((Path(__file__).parents[1] / "data" / "reference_values.json").read_text())


def tensor(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)

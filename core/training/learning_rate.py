"""The learning rate over a run: a linear warm-up, then half a cosine down to zero.

    lr(n) = base * n / warmup                                           n < warmup
    lr(n) = base * (1 + cos(pi (n - warmup) / (steps - warmup))) / 2    otherwise

n counts updates from 0, so the first update of a run with a warm-up moves nothing but the
optimiser's moments; after ``steps`` updates the rate has come down to zero.
"""

from __future__ import annotations

import math


def learning_rate(n: int, base: float, warmup: int, steps: int) -> float:
    """The rate of update ``n`` of ``steps``."""
    if n < warmup:
        return base * n / warmup
    if n >= steps:
        return 0.0
    return base * 0.5 * (1 + math.cos(math.pi * (n - warmup) / (steps - warmup)))

"""Laws of a metric."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from ..metric import Metric
from .law import ensure, run


def check_metric(build: Callable[[], Metric], samples: torch.Tensor) -> None:
    """Every law of a metric; ``build`` makes a fresh one, ``samples`` are integers it can eat."""
    run(build, [_figures, _batching, _order], build, samples)


def _figures(build: Callable[[], Metric], samples: torch.Tensor) -> None:
    """It says finite figures."""
    metric = build()
    metric.update(samples, None)
    figures = metric.compute()
    ensure(len(figures) > 0, "it says nothing.")
    bad = [name for name, value in figures.items() if not math.isfinite(value)]
    ensure(not bad, f"{bad} are not finite.")


def _batching(build: Callable[[], Metric], samples: torch.Tensor) -> None:
    """The figures do not depend on how the samples are split into batches."""
    whole, parts = build(), build()
    whole.update(samples, None)
    for part in samples.split(max(1, len(samples) // 3)):
        parts.update(part, None)
    _agree(whole, parts, "in three batches")


def _order(build: Callable[[], Metric], samples: torch.Tensor) -> None:
    """The figures do not depend on the order of the samples."""
    forward, backward = build(), build()
    forward.update(samples, None)
    backward.update(samples.flip(0), None)
    _agree(forward, backward, "backwards")


def _agree(one: Metric, other: Metric, how: str) -> None:
    first, second = one.compute(), other.compute()
    for name, value in first.items():
        near = math.isclose(value, second[name], rel_tol=1e-4, abs_tol=1e-6)
        ensure(near, f"{name} is {second[name]:.6g} {how}, {value:.6g} otherwise.")

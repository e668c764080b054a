"""Laws of a time sampler."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from elbowroom import Adaptive, Noise, TimeSampler
from torch import Tensor

from .adaptive import check_adaptive
from .law import close, ensure, run

_BATCH = 4096
_STEPS = 64


def check_time_sampler(times: TimeSampler) -> None:
    """Check the laws of a time sampler, prepared for a weight that falls steeply."""
    ready = times.prepare(lambda t: 1 / (t + 0.05))
    run(times, [_range, _unbiased, _same_in_parts, _fresh], ready)
    if isinstance(ready, Adaptive):
        run(times, [_adapts], ready)


def _adapts(times: TimeSampler) -> None:
    """After updates it satisfies every law, independent of ranks and checkpoints."""
    learned = check_adaptive(times)
    for law in (_range, _unbiased, _same_in_parts, _fresh):
        law(learned)


def _range(times: TimeSampler) -> None:
    """Times lie in [0, 1], one per sample, with a positive density."""
    t, density = times.draw(Noise.of(0, _BATCH))
    ensure(t.shape == (_BATCH,), f"t has shape {tuple(t.shape)} for {_BATCH} samples.")
    ensure(density.shape == t.shape, f"the density has shape {tuple(density.shape)}.")
    ensure((t >= 0) & (t <= 1), f"t reaches from {t.min():.4f} to {t.max():.4f}.")
    ensure(density > 0, "the density is not positive everywhere.")


def _unbiased(times: TimeSampler) -> None:
    """E[f(t) / density] is the integral of f: the objective does not depend on the sampler."""
    cases: list[tuple[str, Callable[[Tensor], Tensor], float]] = [
        ("1", torch.ones_like, 1.0),
        ("t", lambda t: t, 0.5),
        ("cos(3 t)", lambda t: (3 * t).cos(), math.sin(3) / 3),
        ("exp(-8 t)", lambda t: (-8 * t).exp(), -math.expm1(-8) / 8),
    ]
    for name, function, integral in cases:
        means = []
        for step in range(_STEPS):
            t, density = times.draw(Noise.of(1, _BATCH, step=step))
            means.append((function(t) / density).mean())
        mean = torch.stack(means)
        error = float(mean.std() / math.sqrt(_STEPS))
        away = abs(float(mean.mean()) - integral)
        ensure(
            away < 6 * error + 1e-6,
            f"E[f/density] is {float(mean.mean()):.5f} +- {error:.5f} for f = {name}, "
            f"not {integral:.5f}.",
        )


def _same_in_parts(times: TimeSampler) -> None:
    """A sample's time does not depend on how the global batch is split over ranks."""
    whole = Noise.of(2, 64)
    t, density = times.draw(whole)
    for part in (slice(0, 32), slice(32, 64), slice(7, 8)):
        t_part, density_part = times.draw(whole.select(part))
        close(t_part, t[part], "the time of a part of the batch", relative=0)
        close(density_part, density[part], "the density of a part of the batch", relative=0)


def _fresh(times: TimeSampler) -> None:
    """Another step draws other times; the same step draws the same."""
    first, again = times.draw(Noise.of(3, 64))[0], times.draw(Noise.of(3, 64))[0]
    ensure(first == again, "the same seed and step drew other times.")
    other = times.draw(Noise.of(3, 64, step=1))[0]
    ensure(bool((first != other).any()), "step 1 drew the times of step 0.")

"""Laws of a path."""

from __future__ import annotations

import torch
from elbowroom import DataSpec, Noise, Path

from .law import close, ensure, run

_DATA = DataSpec((4,), 3)
_BATCH = 4096


def check_path(path: Path) -> None:
    """Check every law of a path, for examples of four positions."""
    run(path, [_range, _speed, _same_in_parts], path.prepare(_DATA))


def _range(path: Path) -> None:
    """Times are in [0, 1], one per position; speeds are non-negative and finite."""
    t = torch.linspace(0, 1, 64, dtype=torch.float64)
    times, speed = path(t, Noise.of(0, 64), _DATA.shape)
    shape = (64, *_DATA.shape) if path.per_position else (64,)
    ensure(times.shape == shape, f"times have shape {tuple(times.shape)} instead of {shape}.")
    ensure((times >= 0) & (times <= 1), f"times are in [{times.min():.4f}, {times.max():.4f}].")
    ensure((speed is None) != path.per_position, "speeds are None only on a shared clock.")
    if speed is not None:
        ensure(speed.shape == times.shape, f"speeds have shape {tuple(speed.shape)}.")
        ensure((speed >= 0) & speed.isfinite(), "a speed is negative or not finite.")


def _speed(path: Path) -> None:
    """The mean speed of a position over tau is at most 1: it moves from data to noise once."""
    t = (torch.arange(_BATCH, dtype=torch.float64) + 0.5) / _BATCH
    _, speed = path(t, Noise.of(1, _BATCH), _DATA.shape)
    if speed is not None:
        mean = speed.mean(0)
        ensure(mean <= 1 + 1e-2, f"the mean speed of a position is {float(mean.max()):.4f}.")


def _same_in_parts(path: Path) -> None:
    """The times of an example do not depend on how the batch is split over ranks."""
    t, noise = torch.linspace(0, 1, 64, dtype=torch.float64), Noise.of(2, 64)
    times, speed = path(t, noise, _DATA.shape)
    for part in (slice(0, 32), slice(7, 8)):
        some, some_speed = path(t[part], noise.select(part), _DATA.shape)
        close(some, times[part], "the times of a part of the batch", relative=0)
        if speed is not None and some_speed is not None:
            close(some_speed, speed[part], "the speeds of a part of the batch", relative=0)

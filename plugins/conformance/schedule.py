"""Laws of a schedule."""

from __future__ import annotations

import torch
from elbowroom import Schedule

from .law import close, ensure, run


def check_schedule(schedule: Schedule) -> None:
    """Check the laws of a schedule."""
    laws = [_finite, _falls, _moves_at_the_ends, _elementwise, _rate, _inverse, _precision]
    run(schedule, laws, schedule)


def _times(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return (torch.arange(1001, dtype=torch.float64) / 1000).to(dtype)


def _finite(schedule: Schedule) -> None:
    """lambda(t) and its rate are finite on [0, 1], the ends included, in float32 and float64."""
    for dtype in (torch.float32, torch.float64):
        t = _times(dtype)
        for name, value in (("lambda", schedule.log_snr(t)), ("rate", schedule.rate(t))):
            bad = t[~value.isfinite()]
            ensure(not len(bad), f"{name} is not finite at t = {bad[:3].tolist()} in {dtype}.")


def _falls(schedule: Schedule) -> None:
    """lambda(t) falls strictly from data (t = 0) to noise (t = 1)."""
    for dtype in (torch.float32, torch.float64):
        t = _times(dtype)
        rising = (schedule.log_snr(t).diff() >= 0).nonzero().flatten()
        ensure(not len(rising), f"it does not fall at t = {t[rising[:3]].tolist()} in {dtype}.")


def _moves_at_the_ends(schedule: Schedule) -> None:
    """lambda(t) falls up to both ends."""
    off = torch.tensor([0.0, 1e-6, 1e-5, 1e-4, 1e-3], dtype=torch.float64)
    for name, t in (("0", off), ("1", 1 - off)):
        lam = schedule.log_snr(t)
        moved = (lam - lam[0]).abs()[1:]
        flat = off[1:][moved.diff(prepend=moved.new_zeros(1)) <= 0].tolist()
        ensure(not flat, f"near t = {name} it is constant for {max(flat, default=0):g}.")


def _elementwise(schedule: Schedule) -> None:
    """lambda is computed elementwise and keeps the shape and precision of t."""
    t = torch.linspace(0.1, 0.9, 6).reshape(2, 3)
    for name, function in (("log_snr", schedule.log_snr), ("rate", schedule.rate)):
        value = function(t)
        ensure(value.shape == t.shape, f"{name} has shape {tuple(value.shape)} for (2, 3).")
        ensure(value.dtype == t.dtype, f"{name} turned {t.dtype} into {value.dtype}.")
        close(function(t[0, 0]), value[0, 0], f"{name} of one time alone", relative=1e-5)


def _rate(schedule: Schedule) -> None:
    """The rate is -lambda'(t), and never negative."""
    t = _times()[1:-1]
    rate = schedule.rate(t)
    ensure(rate >= 0, f"it is negative at t = {t[rate < 0][:3].tolist()}.")
    close(rate, Schedule.rate(schedule, t), "the rate given", relative=1e-6, absolute=1e-9)


def _inverse(schedule: Schedule) -> None:
    """time(lambda) is the inverse of lambda(t)."""
    t = _times()[1:-1]
    close(schedule.time(schedule.log_snr(t)), t, "time(log_snr(t))", relative=0, absolute=1e-7)


def _precision(schedule: Schedule) -> None:
    """float32 agrees with float64."""
    t = _times()
    single = schedule.log_snr(t.float())
    close(single, schedule.log_snr(t.float().double()), "lambda", relative=1e-4, absolute=2e-3)

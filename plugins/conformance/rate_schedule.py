"""Laws of a rate schedule."""

from __future__ import annotations

import itertools
import math

from elbowroom.plugins.training.rate_schedule import RateSchedule

from .law import ensure, run


def check_rate_schedule(schedule: RateSchedule) -> None:
    """Check the laws of a rate schedule."""
    run(schedule, [_between, _scales, _warms_up], schedule)


def _between(schedule: RateSchedule) -> None:
    """The rate is a number between 0 and a few times its base, for any length."""
    for steps, base in itertools.product((1, 7, 1000), (1e-4, 0.3)):
        for n in {0, steps // 3, steps - 1}:
            rate = schedule(base, n, steps)
            fine = math.isfinite(rate) and 0 <= rate <= 10 * base
            ensure(fine, f"update {n} of {steps} has the rate {rate} for the base {base}.")


def _scales(schedule: RateSchedule) -> None:
    """Twice the base is twice the rate."""
    for n in (0, 10, 99):
        one, two = schedule(1e-3, n, 100), schedule(2e-3, n, 100)
        ensure(math.isclose(2 * one, two, rel_tol=1e-9), f"update {n} does not scale with it.")


def _warms_up(schedule: RateSchedule) -> None:
    """The warm-up is linear from 0 to the schedule's first rate."""
    rates = [schedule.rate(1.0, n, 4, 50) for n in range(4)]
    ensure(rates == [0.0, 0.25, 0.5, 0.75], f"a warm-up of 4 has the rates {rates}.")

"""Laws of a weighting. Whether the objective is a bound is not one of them (see the certificate).

A weighting of the plain loss that is used as w satisfies the laws; the printed description
(:mod:`elbowroom.plugins.paper.meaning`) shows it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import attrs
import torch
from elbowroom import Adaptive, Level, Process, Schedule, Weighting, installed
from elbowroom.plugins.paper.meaning import HINT, describe_weighting
from elbowroom.registry import OURS

from .adaptive import check_adaptive
from .law import close, ensure, run
from .oracle import natural_schedule_of

Settings = list[tuple[Process, Schedule]]


def check_weighting(weighting: Weighting) -> str:
    """Check the laws of a weighting, under the built-in processes and their natural schedules.

    Prints (``pytest -rP``) and returns a description of the weighting.
    """
    settings = _settings()
    laws = [_finite, _not_negative, _plain_weight, _elementwise, _alone, _unchanged, _invariance]
    run(weighting, laws, weighting, settings)
    if isinstance(weighting, Adaptive):
        run(weighting, [_adapts], weighting, settings)
    report = "\n".join(_report(weighting, settings))
    sys.stdout.write(f"{report}\n")
    return report


def _adapts(weighting: Weighting, settings: Settings) -> None:
    """After updates it satisfies every law, independent of ranks and checkpoints."""
    learned = check_adaptive(weighting)
    for law in (_finite, _not_negative, _elementwise, _alone, _unchanged, _invariance):
        law(learned, settings)


def _report(weighting: Weighting, settings: Settings) -> Iterator[str]:
    for process, schedule in settings:
        yield f"{weighting!r} under {process}, {schedule}:"
        yield from (
            f"  {sentence}" for sentence in describe_weighting(weighting, schedule, process)
        )
    yield HINT


def _settings() -> Settings:
    found = installed().components("process").values()
    processes = [one.load()() for one in found if one.owner.distribution == OURS]
    return [(process, natural_schedule_of(process)) for process in processes]


def _levels(schedule: Schedule, process: Process, dtype: torch.dtype = torch.float64) -> Level:
    t = torch.linspace(0.001, 0.999, 999, dtype=torch.float64)
    return Level.of(t.to(dtype), schedule, process)


def _finite(weighting: Weighting, settings: Settings) -> None:
    """w is finite inside (0, 1), in float32 and float64."""
    for process, schedule in settings:
        for dtype in (torch.float32, torch.float64):
            level = _levels(schedule, process, dtype)
            w = weighting.prepare(schedule, process)(level)
            bad = level.t[~w.isfinite()].tolist()
            ensure(not bad, f"it is not finite at t = {bad[:3]} ({process}, {dtype}).")


def _not_negative(weighting: Weighting, settings: Settings) -> None:
    """w is not negative."""
    for process, schedule in settings:
        level = _levels(schedule, process)
        w = weighting.prepare(schedule, process)(level)
        bad = level.t[(w < 0).expand_as(level.t)].tolist()
        ensure(not bad, f"it is negative at t = {bad[:3]} ({process}).")


def _plain_weight(weighting: Weighting, settings: Settings) -> None:
    """plain_weight is w * elbo_weight, and finite up to both ends."""
    for process, schedule in settings:
        ready, level = weighting.prepare(schedule, process), _levels(schedule, process)
        given, due = ready.plain_weight(level), ready(level) * level.elbo_weight
        close(given, due, f"plain_weight under {process}", relative=1e-8, absolute=1e-12)
        ends = torch.tensor([1e-9, 1 - 1e-9], dtype=torch.float64)
        at = ready.plain_weight(Level.of(ends, schedule, process))
        ensure(at.isfinite(), f"it is {at.tolist()} near t = 0 and 1 under {process}, {schedule}.")


def _elementwise(weighting: Weighting, settings: Settings) -> None:
    """w is computed elementwise and keeps the shape and precision of the level."""
    x, t = torch.zeros(4, 2, 2), torch.tensor([0.2, 0.4, 0.6, 0.8])
    for process, schedule in settings:
        ready, flat = weighting.prepare(schedule, process), Level.of(t, schedule, process)
        for name, function in (("w", ready), ("plain_weight", ready.plain_weight)):
            wide = function(flat.over(x))
            shape = tuple(wide.shape)
            ensure(shape == (4, 1, 1), f"{name} has shape {shape} for (4, 1, 1).")
            ensure(wide.dtype == t.dtype, f"{name} turned {t.dtype} into {wide.dtype}.")
            close(wide.flatten(), function(flat), f"{name} of a broadcast level", relative=1e-6)


def _alone(weighting: Weighting, settings: Settings) -> None:
    """w at a level does not depend on the other levels of the batch."""
    for process, schedule in settings:
        ready, level = weighting.prepare(schedule, process), _levels(schedule, process)
        few = slice(100, 900, 97)
        for name, function in (("w", ready), ("plain_weight", ready.plain_weight)):
            whole, part = function(level), function(level.select(few))
            close(
                part, whole[few], f"{name} of a part of the batch", relative=1e-9, absolute=1e-300
            )


def _unchanged(weighting: Weighting, settings: Settings) -> None:
    """The level is not changed."""
    for process, schedule in settings:
        ready, level = weighting.prepare(schedule, process), _levels(schedule, process)
        before = {name: value.clone() for name, value in attrs.asdict(level, recurse=False).items()}
        ready(level), ready.plain_weight(level), ready.penalty(level)
        for name, value in before.items():
            same = torch.equal(getattr(level, name), value)
            ensure(same, f"{name} was changed in place under {process}.")


def _invariance(weighting: Weighting, settings: Settings) -> None:
    """w depends on lambda only, or is NaN without a schedule."""
    lam = torch.linspace(-4, 4, 17, dtype=torch.float64)
    for process, schedule in settings:
        ready = weighting.prepare(schedule, process)
        free = ready(Level.at(lam, process))
        if bool(free.isnan().all()):
            continue  # it depends on the schedule
        ensure(~free.isnan(), "without a schedule it is NaN at some levels only.")
        under = ready(Level.of(schedule.time(lam), schedule, process))
        close(under, free, f"w under {schedule} at the same lambda", relative=1e-5, absolute=1e-9)

"""Differences between models with the same seeds.

As far as their configs agree, runs of one training seed see the same examples in the same order,
and all runs are evaluated with the same sample seeds, examples and noise. Their effect on both
models cancels in

    d_st = model's replicate t with training seed s - the first model's,

whose mean has a smaller error than either measurement. Its 95 % interval is ± t_f se, with the
standard error se and its f degrees of freedom by ``errors.py`` and t the 97.5 % quantile of
Student's distribution. A measurement without replicates (one sample seed) has d_s alone: se is then
over training seeds, without sampling noise that all of them share.

A difference to a vacuous measurement (worse than the uniform baseline) is not ranked.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
from elbowroom.plugins.evaluation.metric import Measurement, is_vacuous

from .errors import EVALUATION, TRAINING, crossed_error, replicates

if TYPE_CHECKING:
    from .results import Model

Runs = Mapping[int, Mapping[str, Measurement]]  # training seed -> measurements


@attrs.frozen
class Difference:
    """Mean difference of a measurement to the same seeds of another model."""

    mean: float
    sd: float  # over training seeds
    n: int
    interval: float  # half of the 95 % interval
    beyond_noise: bool  # zero is outside of the interval
    all_agree: bool  # all seeds have the same sign
    for_the_better: bool | None  # None: neither direction is better, or vacuous
    vacuous: bool
    standard_error: float
    error_includes: Sequence[str]


@attrs.frozen
class Differences:
    """All models compared with the first finished one."""

    to: str  # its label
    models: Sequence[Mapping[str, Difference]]  # in order; empty for itself


def differences(models: Sequence[Model]) -> Differences | None:
    """Each model less the first that finished; None where fewer than two seeds are shared."""
    runs = [_runs(model) for model in models]
    first = next((k for k, seeds in enumerate(runs) if len(seeds) > 1), None)
    if first is None:
        return None
    found = [{} if k == first else _between(runs[first], other) for k, other in enumerate(runs)]
    return Differences(models[first].label, found) if any(found) else None


def leads(models: Sequence[Model], name: str, k: int) -> bool:
    """Does model ``k`` differ from all others in a measurement, beyond noise?"""
    runs = [_runs(model) for model in models]
    others = [
        seeds
        for j, seeds in enumerate(runs)
        if j != k and any(name in measured for measured in seeds.values())
    ]
    found = [_difference(name, runs[k], other) for other in others]
    return bool(found) and all(one is not None and one.beyond_noise for one in found)


_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


def student(freedom: int) -> float:
    """The 97.5 % quantile of Student's t: tabulated up to 10 degrees, then by its expansion."""
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    z = 1.959964
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96  # Cornish and Fisher
    return z + first / freedom + second / freedom**2


def _runs(model: Model) -> dict[int, Mapping[str, Measurement]]:
    return {point.seed: point.evaluated.measurements for point in model.points if point.evaluated}


def _between(first: Runs, other: Runs) -> dict[str, Difference]:
    names = dict.fromkeys(name for measurements in other.values() for name in measurements)
    found = {name: _difference(name, first, other) for name in names}
    return {name: one for name, one in found.items() if one is not None}


def _difference(name: str, first: Runs, other: Runs) -> Difference | None:
    pairs = [
        (other[seed][name], first[seed][name])
        for seed in sorted(first.keys() & other.keys())
        if name in first[seed] and name in other[seed]
    ]
    pairs = [pair for pair in pairs if None not in (pair[0].value, pair[1].value)]
    if len(pairs) < 2:
        return None
    each = [a.value - b.value for a, b in pairs]
    mean, table = statistics.fmean(each), _by_replicate(pairs)
    error = crossed_error(table or [[value] for value in each])
    within = student(error.freedom) * error.value
    vacuous = any(is_vacuous(m.value, m.better, m.uniform_baseline) for pair in pairs for m in pair)
    better = pairs[0][0].better
    return Difference(
        mean=mean,
        sd=statistics.stdev(each),
        n=len(each),
        interval=within,
        beyond_noise=abs(mean) > within,
        all_agree=min(each) * max(each) > 0,
        for_the_better=None if vacuous or better is None else (mean < 0) == (better == "lower"),
        vacuous=vacuous,
        standard_error=error.value,
        error_includes=[TRAINING, EVALUATION] if table else [TRAINING],
    )


def _by_replicate(pairs: Sequence[tuple[Measurement, Measurement]]) -> list[list[float]] | None:
    """[S, T] differences of each replicate; None where the two do not have the same."""
    theirs, ours = (replicates(side) for side in zip(*pairs, strict=True))
    if theirs is None or ours is None or len(theirs[0]) != len(ours[0]):
        return None
    return [[a - b for a, b in zip(*rows, strict=True)] for rows in zip(theirs, ours, strict=True)]

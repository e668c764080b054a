"""Differences between models with the same seeds.

As far as their configs agree, runs of one training seed see the same examples in the same order,
and all runs are evaluated with the same sample seeds, examples and noise. What these do to both
models cancels in

    d_st = model's replicate t with training seed s - the first model's,

whose mean has a smaller error than either measurement, as far as the two move together. It lies
within t_f se of the truth in 19 of 20 comparisons, with the standard error se and its f degrees of
freedom by ``errors.py`` and t the 97.5 % quantile of Student's distribution; a difference beyond
that is beyond noise. A measurement without replicates (one sample seed) has d_s alone: se is then
over training seeds, and what other samples would change for all of them is not in it. That all
seeds agree on the sign is weaker: of two seeds, every second pair does without any difference.

Where one of the two is vacuous, worse than that of a model that knows nothing, the difference is no
merit.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import EVALUATION, TRAINING, crossed_error, replicates

Measurements = Mapping[str, Mapping[str, Any]]


def differences(
    groups: Sequence[Mapping[str, Any]], points: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Each group less the first that finished, by measurement; None where nothing can be said.

    The groups come back in their order, with nothing for the first itself and for any that shares
    fewer than two seeds with it.
    """
    by_seed = [_by_seed(group, points) for group in groups]
    first = next((k for k, seeds in enumerate(by_seed) if len(seeds) > 1), None)
    if first is None:
        return None
    found = [
        {} if k == first else _between(by_seed[first], other) for k, other in enumerate(by_seed)
    ]
    return {"to": groups[first]["label"], "groups": found} if any(found) else None


def leads(results: Mapping[str, Any], name: str, k: int) -> bool:
    """Does group ``k`` differ from every other group in a measurement, beyond noise?"""
    by_seed = [_by_seed(group, results["points"]) for group in results["groups"]]
    others = [seeds for j, seeds in enumerate(by_seed) if j != k and _has(seeds, name)]
    found = [_measurement(name, by_seed[k], other) for other in others]
    return bool(found) and all(one is not None and one["beyond_noise"] for one in found)


_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


def student(freedom: int) -> float:
    """The 97.5 % quantile of Student's t: tabulated up to 10 degrees, then by its expansion."""
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    z = 1.959964
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96  # Cornish and Fisher
    return z + first / freedom + second / freedom**2


def _has(seeds: Mapping[int, Measurements], name: str) -> bool:
    return any(name in measured for measured in seeds.values())


def _by_seed(
    group: Mapping[str, Any], points: Sequence[Mapping[str, Any]]
) -> dict[int, Measurements]:
    return {
        point["seed"]: point["figures"]
        for point in points
        if point["name"] in group["points"] and point["status"] == "finished"
    }


def _between(
    first: Mapping[int, Measurements], other: Mapping[int, Measurements]
) -> dict[str, Any]:
    names = dict.fromkeys(name for measurements in other.values() for name in measurements)
    found = {name: _measurement(name, first, other) for name in names}
    return {name: measurement for name, measurement in found.items() if measurement is not None}


def _measurement(
    name: str, first: Mapping[int, Measurements], other: Mapping[int, Measurements]
) -> dict[str, Any] | None:
    pairs = [
        (other[seed][name], first[seed][name])
        for seed in sorted(first.keys() & other.keys())
        if name in first[seed] and name in other[seed]
    ]
    pairs = [pair for pair in pairs if None not in (pair[0]["value"], pair[1]["value"])]
    if len(pairs) < 2:
        return None
    each = [theirs["value"] - ours["value"] for theirs, ours in pairs]
    mean, table = statistics.fmean(each), _by_replicate(pairs)
    error = crossed_error(table or [[value] for value in each])
    within = student(error.freedom) * error.value
    vacuous = any(measurement.get("vacuous") for pair in pairs for measurement in pair)
    return {
        "mean": mean,
        "sd": statistics.stdev(each),
        "n": len(each),
        "interval": within,
        "beyond_noise": abs(mean) > within,
        "all_agree": min(each) * max(each) > 0,
        "for_the_better": None if vacuous else _better(mean, pairs[0][0]["better"]),
        "vacuous": vacuous,
        "standard_error": error.value,
        "error_includes": [TRAINING, EVALUATION] if table else [TRAINING],
        "floor": None,
    }


def _by_replicate(
    pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
) -> list[list[float]] | None:
    """[S, T] the differences of each replicate; None where models do not have the same."""
    theirs, ours = (replicates(side) for side in zip(*pairs, strict=True))
    if theirs is None or ours is None or len(theirs[0]) != len(ours[0]):
        return None
    return [[a - b for a, b in zip(*rows, strict=True)] for rows in zip(theirs, ours, strict=True)]


def _better(mean: float, better: str | None) -> bool | None:
    return None if better is None else (mean < 0) == (better == "lower")

"""Curves of a group's runs, and the shape and certificate of its weighting."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import torch
from elbowroom import (
    Config,
    ElbowroomError,
    LossCurve,
    RunFolder,
    build_parts,
    certify,
    levels_at,
    settled,
    slack_on_run,
)

_POINTS = 240  # of a curve that is drawn


def curves_of(runs: Sequence[RunFolder]) -> dict[str, Any]:
    """Over seeds: each curve the mean of those that have a value at the same place."""
    logs = [run.rows() for run in runs]
    return {
        "loss": _mean_curve([_scalar(rows, "loss") for rows in logs]),
        "train_bits_per_dim": _mean_curve([_scalar(rows, "bits_per_dim") for rows in logs]),
        "bits_per_dim": _mean_curve([_scalar(rows, "validation/bits_per_dim") for rows in logs]),
        "loss_by_level": _mean_curve([_by_level(rows, "loss_by_level") for rows in logs]),
        "elbo_by_level": _mean_curve([_by_level(rows, "elbo_by_level") for rows in logs]),
    }


def _scalar(rows: Iterable[Mapping[str, Any]], name: str) -> dict[float, float]:
    return {row["step"]: row[name] for row in rows if row.get(name) is not None}


def _by_level(rows: Sequence[Mapping[str, Any]], name: str) -> dict[float, float]:
    """The curve over lambda, averaged over the last quarter of the run: one window is noisy."""
    with_curve = [row for row in rows if name in row.get("curves", {})]
    if not with_curve:
        return {}
    end = with_curve[-1]["step"]
    late = [row["curves"][name] for row in with_curve if row["step"] > 0.75 * end]
    x = late[-1][0]
    return {at: statistics.fmean(curve[1][k] for curve in late) for k, at in enumerate(x)}


def _mean_curve(curves: Sequence[Mapping[float, float]]) -> list[list[float]] | None:
    """[x, y], the mean over ``curves`` wherever all of them have a value; thinned if long."""
    curves = [curve for curve in curves if curve]
    if not curves:
        return None
    shared = sorted(set(curves[0]).intersection(*curves[1:]))
    step = max(1, math.ceil(len(shared) / _POINTS))
    kept = shared[::step] if (len(shared) - 1) % step == 0 else [*shared[::step], shared[-1]]
    return [kept, [statistics.fmean(curve[x] for curve in curves) for x in kept]]


def weighting_of(config: Config | None, runs: Sequence[RunFolder]) -> dict[str, Any] | None:
    """The weighting's shape over time, whether it is a bound, and if not, how far by a run."""
    if config is None:
        return None
    config = settled(config, None)  # already so where the data could be read
    assert config.schedule is not None
    options = {k: v for k, v in (config.weighting.given or {}).items() if k != "name"}
    about = {
        "name": config.weighting.name,
        "options": ", ".join(f"{key} = {value}" for key, value in options.items()),
        "schedule": config.schedule.name,
        "process": config.process.name,
    }
    try:
        parts = build_parts(attrs.evolve(config, data=None, denoiser=None, sampler=None))
        steps = config.objective.steps
        certificate = certify(parts.weighting, parts.schedule, parts.process, steps)
        t = (torch.arange(160, dtype=torch.float64) + 0.5) / 160
        level = levels_at(t, parts.schedule, parts.process, steps)
        ready = parts.weighting.prepare(parts.schedule, parts.process, steps)
        w, slack = ready(level), certificate.slack
        if slack is not None and runs:
            curve = LossCurve.of_log(runs[0].rows(), runs[0].path.name)
            slack = slack_on_run(ready, parts.schedule, parts.process, curve, steps)
    except (ElbowroomError, RuntimeError, TypeError) as error:
        return {**about, "problem": str(error)}
    return {
        **about,
        "is_bound": certificate.is_bound,
        "verdict": certificate.verdict,
        "isotonic_distance": certificate.isotonic_distance,
        "slack": None if slack is None else slack.words,
        "shape": [t.tolist(), w.detach().tolist()],
    }

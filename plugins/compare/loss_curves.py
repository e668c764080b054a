"""Curves of a group's runs, and the shape and certificate of its weighting.

What training logs is an estimate, from the examples and levels of some steps: a curve of it looks
unstable where the model is not. So it is also kept smoothed, as

    m_k = mean of y_j over |j - k| <= h,      h of 1/40 of the logged values on either side,

with the standard deviation of these values; near the beginning, where losses fall fast, the window
is as wide as there are values before it. A curve by level, which is a mean over the windows of the
last quarter, has the standard error of that mean.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import torch
from elbowroom import Config, ElbowroomError
from elbowroom.config import build_parts, with_schedule
from elbowroom.plugins.paper.certificate import Certificate, certify
from elbowroom.plugins.paper.slack import LossCurve, slack_on_run
from elbowroom.plugins.paper.survey import levels_at
from elbowroom.runs import RunFolder

_POINTS = 240  # of a curve that is drawn
_FEW = 20  # logged values that nobody takes for a curve


def curves_of(runs: Sequence[RunFolder]) -> dict[str, Any]:
    """Over seeds: each curve the mean of those that have a value at the same place."""
    logs = [run.rows() for run in runs]
    by_level = {
        name: [_by_level(rows, name) for rows in logs]
        for name in ("loss_by_level", "elbo_by_level")
    }
    return {
        "loss": _mean_curve([_scalar(rows, "loss") for rows in logs]),
        "train_bits_per_dim": _mean_curve([_scalar(rows, "bits_per_dim") for rows in logs]),
        "bits_per_dim": _mean_curve([_scalar(rows, "validation/bits_per_dim") for rows in logs]),
        **{name: _mean_curve([means for means, _ in of]) for name, of in by_level.items()},
        "smoothed": {
            "loss": smooth(_mean([_scalar(rows, "loss") for rows in logs])),
            "train_bits_per_dim": smooth(_mean([_scalar(rows, "bits_per_dim") for rows in logs])),
        },
        "errors": {name: _mean_error([e for _, e in of]) for name, of in by_level.items()},
    }


def _scalar(rows: Iterable[Mapping[str, Any]], name: str) -> dict[float, float]:
    return {row["step"]: row[name] for row in rows if row.get(name) is not None}


def _by_level(
    rows: Sequence[Mapping[str, Any]], name: str
) -> tuple[dict[float, float], dict[float, float]]:
    """The curve over lambda, averaged over the last quarter of the run, and its standard errors."""
    with_curve = [row for row in rows if name in row.get("curves", {})]
    if not with_curve:
        return {}, {}
    end = with_curve[-1]["step"]
    late = [row["curves"][name] for row in with_curve if row["step"] > 0.75 * end]
    each = {at: [curve[1][k] for curve in late] for k, at in enumerate(late[-1][0])}
    means = {at: statistics.fmean(values) for at, values in each.items()}
    if len(late) < 2:
        return means, {}
    return means, {at: statistics.stdev(y) / math.sqrt(len(y)) for at, y in each.items()}


def _mean(curves: Sequence[Mapping[float, float]]) -> dict[float, float]:
    """The mean over ``curves`` wherever all of them have a value, in the order of x."""
    curves = [curve for curve in curves if curve]
    shared = sorted(set(curves[0]).intersection(*curves[1:])) if curves else []
    return {x: statistics.fmean(curve[x] for curve in curves) for x in shared}


def _mean_curve(curves: Sequence[Mapping[float, float]]) -> list[list[float]] | None:
    """[x, y] of the mean, thinned if long; None where there is nothing."""
    mean = _mean(curves)
    return [kept, [mean[x] for x in kept]] if (kept := _thinned(list(mean))) else None


def _mean_error(errors: Sequence[Mapping[float, float]]) -> list[list[float]] | None:
    """[x, e] of the mean of curves with these standard errors; None where one has none."""
    if not errors or not all(errors):
        return None
    squares = _mean([{x: e * e for x, e in one.items()} for one in errors])
    return [list(squares), [math.sqrt(square / len(errors)) for square in squares.values()]]


def smooth(curve: Mapping[float, float]) -> list[list[float]] | None:
    """[x, mean, standard deviation] in a window that moves; None where values are few."""
    x, y = list(curve), list(curve.values())
    if len(y) < _FEW:
        return None
    half = max(2, round(len(y) / 40))
    windows = {x[k]: y[max(0, k - half) : k + min(half, k) + 1] for k in range(len(y))}
    kept = _thinned(x)
    return [
        kept,
        [statistics.fmean(windows[at]) for at in kept],
        [statistics.pstdev(windows[at]) for at in kept],
    ]


def _thinned(x: list[float]) -> list[float]:
    step = max(1, math.ceil(len(x) / _POINTS))
    return x[::step] if (len(x) - 1) % step == 0 else [*x[::step], x[-1]]


def weighting_of(config: Config | None, runs: Sequence[RunFolder]) -> dict[str, Any] | None:
    """The weighting's shape over time, whether it is a bound, and if not, how far by a run."""
    if config is None:
        return None
    config = with_schedule(config, None)  # already so where the data could be read
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
        **_verdict(certificate, runs),
        "isotonic_distance": certificate.isotonic_distance,
        "slack": None if slack is None else slack.words,
        "shape": [t.tolist(), w.detach().tolist()],
    }


def _verdict(certificate: Certificate, runs: Sequence[RunFolder]) -> dict[str, Any]:
    """Is it a bound? What changes with training is judged at each moment that was logged."""
    rows = [row for run in runs for row in run.rows() if row.get("is_bound") is not None]
    if not certificate.changes or not rows:
        return {"is_bound": certificate.is_bound, "verdict": certificate.verdict}
    bounds = sum(bool(row["is_bound"]) for row in rows)
    what = "a bound" if bounds == len(rows) else "not a bound"
    seen = f"it was one at {bounds} of the {len(rows)} moments that were logged"
    return {"is_bound": bounds == len(rows), "verdict": f"{what}: w changes with training; {seen}"}

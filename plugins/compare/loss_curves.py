"""Training curves of a model's runs, and the shape and certificate of its weighting.

Logged losses are estimates from the examples and levels of some steps. They are smoothed as

    m_k = mean of y_j over |j - k| <= h,      h = 1/40 of the logged values on either side,

with the standard deviation of these values as a band; near the beginning the window is narrower.
Curves by level are means over the last quarter of training, with their standard error.
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

_POINTS = 240  # of a drawn curve
_FEW = 20  # logged values that are not smoothed
_SCALARS = {
    "loss": "loss",
    "train_bits_per_dim": "bits_per_dim",
    "bits_per_dim": "validation/bits_per_dim",
}
_SMOOTHED = ("loss", "train_bits_per_dim")
_BY_LEVEL = ("loss_by_level", "elbo_by_level")


@attrs.frozen
class Curve:
    """A mean over seeds along training steps or noise levels."""

    x: Sequence[float]
    y: Sequence[float | None]
    smoothed: Sequence[Sequence[float]] | None = None  # x, moving mean, standard deviation
    error: Sequence[float] | None = None  # standard error of y


def curves_of(runs: Sequence[RunFolder]) -> dict[str, Curve]:
    """Curve name -> mean over runs at the places that all of them have; absent ones left out."""
    logs = [run.rows() for run in runs]
    found: dict[str, Curve | None] = {}
    for name, key in _SCALARS.items():
        mean = _mean([_scalar(rows, key) for rows in logs])
        found[name] = _curve(mean, smooth(mean) if name in _SMOOTHED else None)
    for name in _BY_LEVEL:
        each = [_by_level(rows, name) for rows in logs]
        curve = _curve(_mean([means for means, _ in each]))
        errors = _mean_error([e for _, e in each])
        found[name] = curve and attrs.evolve(curve, error=errors)
    return {name: curve for name, curve in found.items() if curve is not None}


def _scalar(rows: Iterable[Mapping[str, Any]], name: str) -> dict[float, float]:
    return {row["step"]: row[name] for row in rows if row.get(name) is not None}


def _by_level(
    rows: Sequence[Mapping[str, Any]], name: str
) -> tuple[dict[float, float], dict[float, float]]:
    """The curve over lambda, averaged over the last quarter of the run, with standard errors."""
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
    """The mean over non-empty ``curves`` wherever all have a value, in the order of x."""
    curves = [curve for curve in curves if curve]
    shared = sorted(set(curves[0]).intersection(*curves[1:])) if curves else []
    return {x: statistics.fmean(curve[x] for curve in curves) for x in shared}


def _curve(
    mean: Mapping[float, float], smoothed: Sequence[Sequence[float]] | None = None
) -> Curve | None:
    x = _thinned(list(mean))
    return Curve(x, [mean[at] for at in x], smoothed) if x else None


def _mean_error(errors: Sequence[Mapping[float, float]]) -> list[float] | None:
    """Standard error of the mean of curves with these standard errors; None where one has none."""
    if not errors or not all(errors):
        return None
    squares = _mean([{x: e * e for x, e in one.items()} for one in errors])
    return [math.sqrt(square / len(errors)) for square in squares.values()]


def smooth(curve: Mapping[float, float]) -> list[list[float]] | None:
    """[x, mean, standard deviation] in a moving window; None where values are few."""
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


@attrs.frozen(kw_only=True)
class WeightingShape:
    """A weighting over time with its certificate."""

    name: str
    options: str
    schedule: str
    process: str
    is_bound: bool | None = None
    verdict: str = ""
    isotonic_distance: float | None = None
    slack: str | None = None
    shape: tuple[Sequence[float], Sequence[float]] | None = None  # t, w
    problem: str = ""  # why it has no shape


def weighting_of(config: Config | None, runs: Sequence[RunFolder]) -> WeightingShape | None:
    """The shape of a config's weighting, and whether it is a bound; slack by the first run."""
    if config is None:
        return None
    config = with_schedule(config, None)  # already so where the data could be read
    assert config.schedule is not None
    options = {k: v for k, v in (config.weighting.given or {}).items() if k != "name"}
    about = WeightingShape(
        name=config.weighting.name,
        options=", ".join(f"{key} = {value}" for key, value in options.items()),
        schedule=config.schedule.name,
        process=config.process.name,
    )
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
        return attrs.evolve(about, problem=str(error))
    is_bound, verdict = _verdict(certificate, runs)
    return attrs.evolve(
        about,
        is_bound=is_bound,
        verdict=verdict,
        isotonic_distance=certificate.isotonic_distance,
        slack=None if slack is None else slack.words,
        shape=(t.tolist(), w.detach().tolist()),
    )


def _verdict(certificate: Certificate, runs: Sequence[RunFolder]) -> tuple[bool, str]:
    """Is it a bound? A trainable weighting is judged at all logged steps."""
    rows = [row for run in runs for row in run.rows() if row.get("is_bound") is not None]
    if not certificate.changes or not rows:
        return certificate.is_bound, certificate.verdict
    bounds = sum(bool(row["is_bound"]) for row in rows)
    what = "a bound" if bounds == len(rows) else "not a bound"
    seen = f"a bound at {bounds} of {len(rows)} logged steps"
    return bounds == len(rows), f"{what}: w changes with training; {seen}"

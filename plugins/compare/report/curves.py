"""Curves over training and over noise levels; the page's script shows their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from ..loss_curves import Curve
from ..results import Results, over_training
from ..tables import shown_measurements
from .chart import Chart, Series, chart

_CHARTS = (
    (
        "loss",
        "Training loss",
        "step",
        "loss",
        "The minimised objective. Weightings differ in scale: compare shapes, not heights.",
    ),
    (
        "bits_per_dim",
        "Validation bits/dim",
        "step",
        "bits/dim",
        "The ELBO on the validation split, EMA weights.",
    ),
    (
        "train_bits_per_dim",
        "Training bits/dim",
        "step",
        "bits/dim",
        "The ELBO on training batches, current weights.",
    ),
    (
        "elbo_by_level",
        "ELBO by level",
        "log-SNR λ",
        "bits/dim per unit of λ",
        "The loss of each noise level: the area under a curve is its bits/dim, without the terms "
        "at the ends of the path. Last quarter of training.",
    ),
    (
        "loss_by_level",
        "Loss by level",
        "log-SNR λ",
        "loss, bits/dim per unit of λ",
        "The same times the weighting. Last quarter of training.",
    ),
)


@attrs.frozen
class Drawn:
    """A chart with a sentence about it."""

    name: str
    drawn: Chart
    words: str


def curves(results: Results) -> dict[str, Any]:
    """The charts, and by chart the values behind them."""
    charts, data = [], {}
    for name, title, x_title, y_title, words in (*_milestone_charts(results), *_CHARTS):
        having = {k: model for k, model in enumerate(results.models) if name in model.curves}
        series = [_series(k, model.label, model.curves[name]) for k, model in having.items()]
        drawn = chart(title, x_title, y_title, series, may_bend=name != "elbo_by_level")
        if drawn is not None:
            data[name] = [[one.label, one.colour, list(one.x), list(one.y)] for one in series]
            of = [model.curves[name] for model in having.values()]
            charts.append(Drawn(name, drawn, words + _about_noise(of)))
    return {"charts": charts, "data": data}


def _milestone_charts(results: Results) -> list[tuple[str, str, str, str, str]]:
    """A chart for each measurement; those measured at the end alone are dropped later."""
    words = "The measurement at each milestone, with the EMA weights of that step."
    return [
        (over_training(name), f"{title} over training", "step", title, words)
        for name, title in shown_measurements(results).items()
    ]


def _series(k: int, label: str, curve: Curve) -> Series:
    """A curve, smoothed if it was logged often, with a band where its noise is known."""
    if curve.smoothed is not None:
        x, y, band = curve.smoothed
        return Series(label, k, x, y, band=band)
    return Series(label, k, curve.x, curve.y, dots=len(curve.x) < 12, band=curve.error)


def _about_noise(of: Sequence[Curve]) -> str:
    """The meaning of line and band."""
    if any(curve.smoothed for curve in of):
        return (
            " Smoothed: the mean of the values logged within 2.5 % of the training before and "
            "after; band: their standard deviation, mostly noise of the estimate."
        )
    return " Band: ± a standard error." if any(curve.error for curve in of) else ""

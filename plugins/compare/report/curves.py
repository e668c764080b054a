"""Curves over training and over levels; their values go to the page's script too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from ..presentation import shown_measurements
from ..results import over_training
from .chart import Chart, Series, chart

_CHARTS = (
    (
        "loss",
        "Training loss",
        "step",
        "loss",
        "What each model minimises: weightings differ in scale, so shapes compare, heights do not.",
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
        "Where bits are lost: the area under a curve is its bits/dim, but for those at the ends of "
        "the path. Last quarter of training.",
    ),
    (
        "loss_by_level",
        "Loss by level",
        "log-SNR λ",
        "loss, bits/dim per unit of λ",
        "The same with the weighting: where training looks. Last quarter of training.",
    ),
)


@attrs.frozen
class Drawn:
    """A chart, with a few words on what it shows."""

    name: str
    drawn: Chart
    words: str


def curves(results: Mapping[str, Any]) -> dict[str, Any]:
    """The charts, and the values behind them by chart."""
    charts, data = [], {}
    for name, title, x_title, y_title, words in (*_milestone_charts(results), *_CHARTS):
        series = [
            _series(k, group["label"], name, group["curves"])
            for k, group in enumerate(results["groups"])
            if group["curves"].get(name)
        ]
        drawn = chart(title, x_title, y_title, series, may_bend=name != "elbo_by_level")
        if drawn is not None:
            data[name] = [[one.label, one.colour, list(one.x), list(one.y)] for one in series]
            charts.append(Drawn(name, drawn, words + _about_noise(name, results["groups"])))
    return {"charts": charts, "data": data}


def _milestone_charts(results: Mapping[str, Any]) -> list[tuple[str, str, str, str, str]]:
    """A chart for each measurement; those measured at the end alone are empty, and dropped."""
    words = "The same measurement at each milestone, by the EMA weights of that step."
    return [
        (over_training(name), f"{title} over training", "step", title, words)
        for name, title in shown_measurements(results).items()
    ]


def _series(k: int, label: str, name: str, curves: Mapping[str, Any]) -> Series:
    """A curve, smoothed if it was logged often, with a band where its noise is known."""
    if smoothed := _of(curves, "smoothed", name):
        x, y, band = smoothed
        return Series(label, k, x, y, band=band)
    x, y = curves[name]
    errors = _of(curves, "errors", name)
    return Series(label, k, x, y, dots=len(x) < 12, band=None if errors is None else errors[1])


def _about_noise(name: str, groups: Sequence[Mapping[str, Any]]) -> str:
    """What the line and its band are, where they are more than the values."""
    if any(_of(group["curves"], "smoothed", name) for group in groups):
        return (
            " Smoothed: the line is the mean of the values logged within 2.5 % of the training "
            "before and after, the band their standard deviation, most of it noise of the estimate."
        )
    if any(_of(group["curves"], "errors", name) for group in groups):
        return " Band: ± a standard error of that mean."
    return ""


def _of(curves: Mapping[str, Any], part: str, name: str) -> Any:
    return (curves.get(part) or {}).get(name)

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
            _series(k, group["label"], group["curves"][name])
            for k, group in enumerate(results["groups"])
            if group["curves"].get(name)
        ]
        drawn = chart(title, x_title, y_title, series, may_bend=name != "elbo_by_level")
        if drawn is not None:
            data[name] = [[one.label, one.colour, list(one.x), list(one.y)] for one in series]
            charts.append(Drawn(name, drawn, words))
    return {"charts": charts, "data": data}


def _milestone_charts(results: Mapping[str, Any]) -> list[tuple[str, str, str, str, str]]:
    """A chart for each measurement; those measured at the end alone are empty, and dropped."""
    words = "The same measurement at each milestone, by the EMA weights of that step."
    return [
        (over_training(name), f"{title} over training", "step", title, words)
        for name, title in shown_measurements(results).items()
    ]


def _series(k: int, label: str, curve: Sequence[Sequence[float]]) -> Series:
    x, y = curve
    return Series(label, k, x, y, dots=len(x) < 12)

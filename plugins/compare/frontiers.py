"""Frontiers: quality against network calls per sample, and against operations of training.

A model with cost c and quality q is on the frontier if no other has

    c' <= c  and  q' at least as good as q,      one of them strictly.

Costs are the mean network calls of a sample, and steps times operations of a training step. A model
that was evaluated at milestones is a point at each of them. Quality is the mean over seeds. Vacuous
measurements are on no frontier.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import attrs
from elbowroom import Config, ElbowroomError

from .axes import short_value
from .operations import step_flops
from .shared_training import training_of

if TYPE_CHECKING:
    from .results import Model, Results, Summary


@attrs.frozen
class Cost:
    """A cost that models differ in."""

    name: str
    title: str
    along: str  # the config value that a line runs along
    varied_by: tuple[str, ...]  # config values that change it
    of_samples: bool  # does it matter to measurements of samples alone?

    def is_varied(self, keys: Sequence[str]) -> bool:
        """Does a comparison that varies these config values vary the cost?"""
        return any(
            key == root or key.startswith(f"{root}.") for key in keys for root in self.varied_by
        )


CALLS = Cost("calls", "network calls per sample", "sampler.steps", ("sampler",), of_samples=True)
COMPUTE = Cost(
    "compute",
    "training FLOPs",
    "train.steps",
    ("train.steps", "train.batch_size", "denoiser"),
    of_samples=False,
)


@attrs.frozen
class Spot:
    """A model at a cost."""

    cost: float
    value: float
    standard_error: float | None
    label: str  # of the model
    vacuous: bool = False


@attrs.frozen
class Line:
    """Models that differ in the cost alone."""

    label: str
    points: Sequence[Spot]


@attrs.frozen
class Panel:
    """One measurement against a cost."""

    measurement: str
    title: str
    better: Literal["lower", "higher"]
    lines: Sequence[Line]
    frontier: Sequence[Spot]


@attrs.frozen
class Frontier:
    """A plot: a panel for each measurement."""

    cost: str
    title: str
    panels: Sequence[Panel]


def frontiers(results: Results) -> list[Frontier]:
    """All plots with at least two different costs."""
    found = []
    for cost, spots in ((CALLS, _calls), (COMPUTE, _compute)):
        panels = [
            _panel(name, title, results, list(spots(results, name)))
            for name, title in _qualities(results, cost).items()
        ]
        shown = [panel for panel in panels if panel is not None]
        if shown:
            found.append(Frontier(cost.name, cost.title, shown))
    return found


def pareto(spots: Sequence[tuple[float, float]], better: str) -> list[int]:
    """Indices of the (cost, value) that no other dominates, by rising cost."""
    sign = 1.0 if better == "lower" else -1.0
    order = sorted(range(len(spots)), key=lambda k: (spots[k][0], sign * spots[k][1]))
    kept: list[int] = []
    for k in order:
        cost, value = spots[k]
        best = sign * spots[kept[-1]][1] if kept else float("inf")
        if sign * value < best or (kept and spots[kept[-1]] == (cost, value)):
            kept.append(k)
    return kept


def _qualities(results: Results, cost: Cost) -> dict[str, str]:
    """Ranked measurements with their titles; of samples alone where these change the cost."""
    from .tables import is_ranked, shown_measurements

    return {
        name: title
        for name, title in shown_measurements(results, narrow=True).items()
        if is_ranked(results, name)
        and (not cost.of_samples or any("samples" in one.of for one in _of(results, name)))
    }


def _of(results: Results, name: str) -> list[Summary]:
    return [model.measurements[name] for model in results.models if name in model.measurements]


def _panel(
    name: str, title: str, results: Results, spots: Sequence[tuple[str, Spot]]
) -> Panel | None:
    """One measurement; None where fewer than two costs are known."""
    better = _of(results, name)[0].better
    if better is None or len({spot.cost for _, spot in spots}) < 2:
        return None
    ranked = [spot for _, spot in spots if not spot.vacuous]
    front = pareto([(spot.cost, spot.value) for spot in ranked], better)
    lines: dict[str, list[Spot]] = {}
    for line, spot in spots:
        lines.setdefault(line, []).append(spot)
    return Panel(
        name,
        title,
        better,
        [Line(label, sorted(on, key=lambda spot: spot.cost)) for label, on in lines.items()],
        [ranked[k] for k in front],
    )


def _spot(line: str, cost: float, one: Summary, label: str) -> Iterator[tuple[str, Spot]]:
    if one.mean is not None:
        yield line, Spot(cost, one.mean, one.standard_error, label, one.vacuous)


def _calls(results: Results, name: str) -> Iterator[tuple[str, Spot]]:
    """Each model at the calls of its samples."""
    if not CALLS.is_varied(list(results.vary)):
        return
    for model in results.models:
        calls = model.budget.get(CALLS.title)
        if name in model.measurements and calls:
            line = _line(model, CALLS.along)
            yield from _spot(line, calls, model.measurements[name], model.label)


def _compute(results: Results, name: str) -> Iterator[tuple[str, Spot]]:
    """Each model at the operations of its training, and at those of its milestones."""
    for model in results.models:
        each, steps = model.step_flops, model.budget.get("training steps")
        if name not in model.measurements or not each or not steps:
            continue
        at = model.milestones.get(name) or {steps: model.measurements[name]}
        for step, one in at.items():
            label = f"{model.label}, {step:,} steps"
            yield from _spot(_line(model, COMPUTE.along), step * each, one, label)


def _line(model: Model, along: str) -> str:
    """A model's label without the value that its line runs along."""
    values = [short_value(value) for key, value in model.values.items() if key != along]
    return " · ".join(values) or "as configured"


def step_operations(keys: Sequence[str], configs: Sequence[Config | None]) -> list[float | None]:
    """Operations of a training step of each config, counted only if training compute differs."""
    milestones = any(config is not None and config.train.milestones for config in configs)
    if not COMPUTE.is_varied(keys) and not milestones:
        return [None] * len(configs)
    known: dict[str, float | None] = {}
    found = []
    for config in configs:
        key = "" if config is None else json.dumps(training_of(config), sort_keys=True)
        if config is not None and key not in known:
            known[key] = None
            with suppress(ElbowroomError):
                known[key] = step_flops(config)
        found.append(known.get(key))
    return found

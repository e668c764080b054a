"""Results of a comparison: its points, and the models whose points differ in the seed alone.

``results.json`` is :meth:`Results.record`; tables, plots and the report are rendered from
:class:`Results`.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import attrs
from elbowroom import Config, ElbowroomError
from elbowroom.config import to_plain
from elbowroom.files import finite
from elbowroom.plugins.evaluation.metric import Display, Measurement, is_vacuous
from elbowroom.runs import RunFolder

from .comparison import Comparison
from .differences import Differences, differences
from .errors import combined_error
from .frontiers import Frontier, frontiers, step_operations
from .loss_curves import Curve, WeightingShape, curves_of, weighting_of
from .point import Evaluated, Point
from .real_data import DataShown, show_data

FORMAT = 2


@attrs.frozen
class Summary:
    """A measurement of a model: its mean over training seeds, with error and protocol."""

    mean: float | None
    sd: float | None  # over training seeds
    n: int
    standard_error: float | None
    error_includes: Sequence[str]
    heading: str
    better: Literal["lower", "higher"] | None
    floor: float | None  # the same measurement of real data
    uniform_baseline: float | None
    vacuous: bool  # worse than the uniform baseline
    of: Mapping[str, Any]  # protocol

    @classmethod
    def over(cls, runs: Sequence[Measurement]) -> Summary:
        """Summarise the same measurement of several runs."""
        known = [one for one in runs if one.value is not None]
        values, first = [one.value for one in known], runs[0]
        mean = statistics.fmean(values) if values else None
        error, includes = combined_error(known) if known else (None, [])
        return cls(
            mean=mean,
            sd=statistics.stdev(values) if len(values) > 1 else None,
            n=len(values),
            standard_error=error,
            error_includes=includes,
            heading=first.heading,
            better=first.better,
            floor=first.floor,
            uniform_baseline=first.uniform_baseline,
            vacuous=is_vacuous(mean, first.better, first.uniform_baseline),
            of={k: v for k, v in first.of.items() if k not in ("run", "weights")},
        )


@attrs.define(eq=False)
class Model:
    """The points that differ in the seed alone, and their mean results."""

    label: str
    values: Mapping[str, str]
    points: Sequence[Point]
    measurements: dict[str, Summary] = attrs.field(factory=dict)
    budget: dict[str, Any] = attrs.field(factory=dict)
    milestones: dict[str, dict[int, Summary]] = attrs.field(factory=dict)
    curves: dict[str, Curve] = attrs.field(factory=dict)
    weighting: WeightingShape | None = None
    step_flops: float | None = None  # operations of a training step, where models differ in it

    @property
    def finished(self) -> list[Point]:
        """Its finished points."""
        return [point for point in self.points if point.evaluated is not None]

    @property
    def shown(self) -> Point | None:
        """The point whose samples are shown."""
        pictured = (p for p in self.points if p.evaluated is not None and p.evaluated.reverse)
        return next(pictured, None)

    @classmethod
    def of_points(cls, points: Sequence[Point]) -> Model:
        """Summarise points that differ in the seed alone."""
        done = [point.evaluated for point in points if point.evaluated is not None]
        runs = [RunFolder(point.folder) for point in points if point.evaluated is not None]
        config = next((point.config for point in points if point.config is not None), None)
        at = milestones([point.milestones for point in points if point.evaluated is not None])
        return cls(
            points[0].label,
            points[0].values,
            points,
            measurements=_summaries([one.measurements for one in done]),
            budget={} if config is None else _budget(config, done),
            milestones=at,
            curves={**curves_of(runs), **_milestone_curves(at)},
            weighting=weighting_of(config, runs),
        )

    def record(self) -> dict[str, Any]:
        """JSON data."""
        return {
            "label": self.label,
            "values": dict(self.values),
            "points": [point.name for point in self.points],
            "finished": len(self.finished),
            "figures": {name: attrs.asdict(one) for name, one in self.measurements.items()},
            "budget": self.budget,
            "weighting": self.weighting and attrs.asdict(self.weighting),
            "milestones": {
                name: {str(step): attrs.asdict(one) for step, one in at.items()}
                for name, at in self.milestones.items()
            },
            "curves": {name: attrs.asdict(one) for name, one in self.curves.items()},
            "step_flops": self.step_flops,
        }


@attrs.define(eq=False)
class Results:
    """All results of a comparison."""

    source: str
    out: Path  # folder of the comparison
    vary: Mapping[str, Sequence[str]]
    protocol: Mapping[str, Any]
    points: Sequence[Point]
    models: Sequence[Model]
    display: Mapping[str, Display] = attrs.field(factory=dict)
    data: Sequence[DataShown] = ()
    overrides: Sequence[str] = ()

    @property
    def seeds(self) -> list[int]:
        """All training seeds."""
        return sorted({point.seed for point in self.points})

    @property
    def title(self) -> str:
        """The source and what is varied."""
        return f"{self.source}: {' × '.join(self.vary) or 'one point'}"

    @cached_property
    def differences(self) -> Differences | None:
        """Each model less the first, seed by seed."""
        return differences(self.models)

    @cached_property
    def budgets(self) -> Budgets:
        """Equal and different budgets."""
        return Budgets.of(self.models)

    @cached_property
    def frontiers(self) -> list[Frontier]:
        """Quality against network calls, and against training compute."""
        return frontiers(self)

    def record(self) -> dict[str, Any]:
        """The content of ``results.json``."""
        between = self.differences
        record: dict[str, Any] = finite(
            {
                "format": FORMAT,
                "elbowroom": metadata.version("elbowroom"),
                "title": self.title,
                "source": self.source,
                "overrides": list(self.overrides),
                "vary": {key: list(values) for key, values in self.vary.items()},
                "seeds": self.seeds,
                "protocol": dict(self.protocol),
                "points": [point.record(self.out) for point in self.points],
                "groups": [model.record() for model in self.models],
                "display": {name: one.record() for name, one in self.display.items()},
                "differences": between
                and {
                    "to": between.to,
                    "groups": [
                        {name: attrs.asdict(one) for name, one in model.items()}
                        for model in between.models
                    ],
                },
                "budgets": attrs.asdict(self.budgets),
                "frontiers": [attrs.asdict(one) for one in self.frontiers],
                "data": [attrs.asdict(one) for one in self.data],
            }
        )
        return record


def collect(comparison: Comparison, points: Sequence[Point]) -> Results:
    """Summarise the points of a comparison, whose results were read when they finished."""
    same: dict[tuple[str, ...], list[Point]] = {}
    for point in points:
        same.setdefault(tuple(point.values.values()), []).append(point)
    models = [Model.of_points(group) for group in same.values()]
    keys = [axis.key for axis in comparison.axes]
    configs = [model.points[0].config for model in models]
    for model, flops in zip(models, step_operations(keys, configs), strict=True):
        model.step_flops = flops
    return Results(
        source=comparison.source,
        out=comparison.out,
        vary={axis.key: list(axis.values) for axis in comparison.axes},
        protocol=comparison.protocol.record(),
        points=points,
        models=models,
        display=displays(comparison),
        data=show_data(points, comparison.out),
        overrides=comparison.overrides,
    )


def displays(comparison: Comparison) -> dict[str, Display]:
    """Measurement -> how its metric wants it shown."""
    try:
        metrics = comparison.protocol.build().values()
    except ElbowroomError:  # each point reports the error
        return {}
    return {name: one for metric in metrics for name, one in metric.display.items()}


def _summaries(runs: Sequence[Mapping[str, Measurement]]) -> dict[str, Summary]:
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: Summary.over([run[name] for run in runs if name in run]) for name in names}


def milestones(runs: Sequence[Sequence[Evaluated]]) -> dict[str, dict[int, Summary]]:
    """Measurement -> its summary at each step that every run was evaluated at."""
    at = [{one.step: one.measurements for one in run} for run in runs]
    steps = sorted(set(at[0]).intersection(*at[1:])) if at else []
    names = dict.fromkeys(name for run in at for found in run.values() for name in found)
    return {
        name: {
            step: Summary.over([run[step][name] for run in at])
            for step in steps
            if all(name in run[step] for run in at)
        }
        for name in names
    }


def over_training(measurement: str) -> str:
    """The name of a measurement's curve over the milestones of a run."""
    return f"{measurement}_over_training"


def _milestone_curves(at: Mapping[str, Mapping[int, Summary]]) -> dict[str, Curve]:
    return {
        over_training(name): Curve(list(steps), [one.mean for one in steps.values()])
        for name, steps in at.items()
    }


# -- budgets


@attrs.frozen
class Budgets:
    """Budgets that all models share, and by key those of each model where they differ."""

    same: Mapping[str, Any]
    different: Mapping[str, Mapping[str, Any]]  # key -> label -> value

    @classmethod
    def of(cls, models: Sequence[Model]) -> Budgets:
        """Compare the budgets of all models."""
        known = {model.label: model.budget for model in models if model.budget}
        same, different = {}, {}
        for key in dict.fromkeys(key for budget in known.values() for key in budget):
            each = {label: budget.get(key) for label, budget in known.items()}
            values = [value for value in each.values() if value is not None]
            if values and all(value == values[0] for value in values):
                same[key] = values[0]
            elif values:
                different[key] = each
        return cls(same, different)


def _budget(config: Config, done: Sequence[Evaluated]) -> dict[str, Any]:
    calls = [one.calls for one in done if one.calls is not None]
    seconds = [one.train_seconds for one in done if one.train_seconds is not None]
    plain = to_plain(config)
    sampler = plain["sampler"] or {}
    return {
        "data": _short(plain["data"]),
        "parameters": next((one.parameters for one in done), None),
        "training steps": config.train.steps,
        "batch size": config.train.batch_size,
        "learning rate": config.train.learning_rate,
        "sampler": sampler.get("name"),
        "sampler steps": sampler.get("steps"),
        "network calls per sample": round(statistics.fmean(calls), 2) if calls else None,
        "training seconds": round(statistics.fmean(seconds), 1) if seconds else None,
    }


def _short(spec: Any) -> str:
    """A component's name and its options that are not None."""
    if not isinstance(spec, Mapping):
        return str(spec)
    options = [f"{k}={v}" for k, v in spec.items() if k != "name" and v is not None]
    return ", ".join([str(spec.get("name")), *options])

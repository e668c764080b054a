"""What a comparison found: plain data.

    points       one for each point of the grid: values, seed, status, measurements, budget, folder
    groups       points that differ in the seed alone: mean of measurements with its standard error
                 and the sources of noise in it, std over seeds, curves, samples, the weighting's
                 shape and certificate
    display      measurement -> its title and where it is shown, as its metric says
    differences  each group less the first, seed by seed
    budgets      what is the same for all, and where groups differ
    frontiers    quality against network calls, and against training compute (frontiers.py)
    paper        rows quoted from the paper, if they were asked for
    data         each data set, with its options and a picture of real examples (real_data.py)

``results.json`` holds all of it; the report and every table are made from it alone.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import attrs
from elbowroom import Config, ElbowroomError
from elbowroom.config import to_plain
from elbowroom.files import finite
from elbowroom.plugins.evaluation.metric import is_vacuous
from elbowroom.runs import RunFolder

from .comparison import Cell, Comparison
from .differences import differences
from .errors import combined_error
from .frontiers import Operations, asks_for_operations, frontiers
from .loss_curves import curves_of, weighting_of
from .paper_table import ROWS, SETTING, ours
from .running import State

FORMAT = 1


def collect(
    comparison: Comparison,
    cells: Sequence[Cell],
    states: Mapping[str, State],
    *,
    paper: bool = False,
) -> dict[str, Any]:
    """Everything that is known of a comparison."""
    points = [_point(comparison, cell, states[cell.name]) for cell in cells]
    groups = [_group(same) for same in _by_values(cells, points)]
    _add_operations(comparison, groups, cells)
    found = finite(
        {
            "format": FORMAT,
            "elbowroom": metadata.version("elbowroom"),
            "title": f"{comparison.source}: {_varied(comparison)}",
            "source": comparison.source,
            "overrides": list(comparison.overrides),
            "vary": {axis.key: list(axis.values) for axis in comparison.axes},
            "seeds": sorted({cell.seed for cell in cells}),
            "protocol": comparison.protocol.record(),
            "points": points,
            "groups": groups,
            "display": displays(comparison),
            "differences": differences(groups, points),
            "budgets": budgets(groups),
            "paper": _paper(groups) if paper else None,
        }
    )
    return {**found, "frontiers": frontiers(found)}


def _add_operations(
    comparison: Comparison, groups: Sequence[dict[str, Any]], cells: Sequence[Cell]
) -> None:
    """What a training step of each group takes, where training compute is compared."""
    configs = [cell.point.config if cell.point else None for cell in cells[:: comparison.seeds]]
    if asks_for_operations([axis.key for axis in comparison.axes], configs):
        count = Operations()
        for group, config in zip(groups, configs, strict=True):
            group["step_flops"] = count.of_step(config)


def _varied(comparison: Comparison) -> str:
    return " × ".join(axis.key for axis in comparison.axes) or "one point"


def _point(comparison: Comparison, cell: Cell, state: State) -> dict[str, Any]:
    found: Mapping[str, Any] = {}
    milestones: list[dict[str, Any]] = []
    if state.status == "finished" and cell.point is not None:
        found, milestones = cell.point.evaluation() or {}, cell.point.milestones()
    return {
        "name": cell.name,
        "label": cell.label,
        "values": dict(cell.values),
        "seed": cell.seed,
        "status": state.status,
        "reason": state.reason,
        "folder": str(cell.folder.relative_to(comparison.out)),
        "commands": comparison.commands(cell),
        "figures": found.get("figures", {}),
        "skipped": found.get("skipped", {}),
        "failed": found.get("failed", {}),  # metrics
        "step": found.get("step"),
        "parameters": found.get("parameters"),
        "calls": found.get("calls_mean"),
        "train_seconds": found.get("train_seconds"),
        "sampling_seconds": (found.get("seconds") or {}).get("sampling"),
        "reverse": found.get("reverse"),
        "texts": found.get("texts"),
        "milestones": [{"step": m["step"], "figures": m["figures"]} for m in milestones],
    }


def _by_values(
    cells: Sequence[Cell], points: Sequence[dict[str, Any]]
) -> list[list[tuple[Cell, dict[str, Any]]]]:
    same: dict[tuple[str, ...], list[tuple[Cell, dict[str, Any]]]] = {}
    for cell, point in zip(cells, points, strict=True):
        same.setdefault(tuple(cell.values.values()), []).append((cell, point))
    return list(same.values())


def _group(same: list[tuple[Cell, dict[str, Any]]]) -> dict[str, Any]:
    cell = same[0][0]
    done = [point for _, point in same if point["status"] == "finished"]
    config = next((c.point.config for c, _ in same if c.point is not None), None)
    names = dict.fromkeys(name for point in done for name in point["figures"])
    judged = milestones([point["milestones"] for point in done])
    runs = [RunFolder(c.folder) for c, p in same if p["status"] == "finished"]
    return {
        "label": cell.label,
        "values": dict(cell.values),
        "points": [point["name"] for _, point in same],
        "finished": len(done),
        "figures": {
            name: summary([p["figures"][name] for p in done if name in p["figures"]])
            for name in names
        },
        "budget": _budget(config, done),
        "weighting": weighting_of(config, runs),
        "names": {} if config is None else _names(config),
        "milestones": judged,
        "curves": {**curves_of(runs), **_milestone_curves(judged)},
        "shown": next((p["name"] for p in done if p["reverse"]), None),
    }


def summary(measurements: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Mean over training seeds with its standard error (errors.py) and protocol; std over seeds."""
    known = [f for f in measurements if f["value"] is not None]
    values = [f["value"] for f in known]
    first, mean = measurements[0], statistics.fmean(values) if values else None
    nothing = first.get("knows_nothing")
    error, includes = combined_error(known) if known else (None, [])
    return {
        "mean": mean,
        "sd": statistics.stdev(values) if len(values) > 1 else None,
        "n": len(values),
        "standard_error": error,
        "error_includes": includes,
        "heading": first.get("heading"),
        "better": first["better"],
        "floor": first["floor"],
        "knows_nothing": nothing,
        "vacuous": is_vacuous(mean, first["better"], nothing),
        "of": {k: v for k, v in first["of"].items() if k not in ("run", "weights")},
    }


def milestones(runs: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Measurement -> its summary at each step that every run was judged at."""
    at = [{one["step"]: one["figures"] for one in run} for run in runs]
    steps = sorted(set(at[0]).intersection(*at[1:])) if at else []
    names = dict.fromkeys(
        name for run in at for measurements in run.values() for name in measurements
    )
    return {
        name: {
            str(step): summary([run[step][name] for run in at])
            for step in steps
            if all(name in run[step] for run in at)
        }
        for name in names
    }


def over_training(measurement: str) -> str:
    """The name of a measurement's curve over the milestones of a run."""
    return f"{measurement}_over_training"


def _milestone_curves(judged: Mapping[str, Mapping[str, Any]]) -> dict[str, list[list[float]]]:
    return {
        over_training(name): [[int(step) for step in at], [one["mean"] for one in at.values()]]
        for name, at in judged.items()
    }


def _names(config: Config) -> dict[str, str | None]:
    return {
        "process": config.process.name,
        "weighting": config.weighting.name,
        "data": config.data.name if config.data else None,
    }


# -- budgets


def _budget(config: Config | None, done: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a group was given, as a comparison must know it."""
    if config is None:
        return {}
    calls = [p["calls"] for p in done if p["calls"] is not None]
    spent = [p["train_seconds"] for p in done if p["train_seconds"] is not None]
    plain = to_plain(config)
    sampler = plain["sampler"] or {}
    return {
        "data": _short(plain["data"]),
        "parameters": next((p["parameters"] for p in done), None),
        "training steps": config.train.steps,
        "batch size": config.train.batch_size,
        "learning rate": config.train.learning_rate,
        "sampler": sampler.get("name"),
        "sampler steps": sampler.get("steps"),
        "network calls a sample": round(statistics.fmean(calls), 2) if calls else None,
        "training seconds": round(statistics.fmean(spent), 1) if spent else None,
    }


def _short(spec: Any) -> str:
    """A component in a few words: its name, and the options that say something."""
    if not isinstance(spec, Mapping):
        return str(spec)
    told = [f"{k}={v}" for k, v in spec.items() if k != "name" and v is not None]
    return ", ".join([str(spec.get("name")), *told])


def budgets(groups: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all groups share, and for the rest each group's own."""
    known = [(g["label"], g["budget"]) for g in groups if g["budget"]]
    keys = dict.fromkeys(key for _, budget in known for key in budget)
    same, different = {}, {}
    for key in keys:
        said = {label: budget.get(key) for label, budget in known}
        values = [value for value in said.values() if value is not None]
        if not values:
            continue
        if all(value == values[0] for value in values):
            same[key] = values[0]
        else:
            different[key] = said
    return {"same": same, "different": different}


# -- the paper beside ours


def _paper(groups: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rows, measured = [], ours(groups)
    for quoted in ROWS:
        beside = [
            {"label": g["label"], **{key: g["figures"].get(name) for key, name in measured.items()}}
            for g in groups
            if quoted.weighting is not None
            and g["names"].get("process") == quoted.process
            and g["names"].get("weighting") == quoted.weighting
            and g["finished"]
        ]
        rows.append({**attrs.asdict(quoted), "ours": beside})
    return {"setting": SETTING, "rows": rows}


def displays(comparison: Comparison) -> dict[str, Any]:
    """Measurement -> how its metric wants it shown; what a metric does not say is left out."""
    try:
        metrics = comparison.protocol.build().values()
    except ElbowroomError:  # each point says why
        return {}
    return {name: one.record() for metric in metrics for name, one in metric.display.items()}

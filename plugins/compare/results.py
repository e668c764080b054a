"""What a comparison found: plain data, and its tables.

    points       one for each point of the grid: values, seed, status, measurements, budget, folder
    groups       points that differ in the seed alone: mean and standard deviation of measurements,
                 curves, samples, the weighting's shape and certificate
    display      measurement -> its title and where it is shown, as its metric says
    differences  each group less the first, seed by seed
    budgets      what is the same for all, and where groups differ
    paper        rows quoted from the paper, if they were asked for

``results.json`` holds all of it; the report and every table are made from it alone.
"""

from __future__ import annotations

import csv
import io
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import attrs
import torch
from elbowroom import (
    Config,
    Display,
    ElbowroomError,
    LossCurve,
    RunFolder,
    build_parts,
    certify,
    finite,
    is_vacuous,
    levels_at,
    settled,
    slack_on_run,
    to_plain,
    write_atomically,
)

from .comparison import Cell, Comparison, State
from .decimals import Column
from .differences import differences
from .paper_table import OURS, ROWS, SETTING

FORMAT = 1
_POINTS = 240  # of a curve that is drawn


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
    return finite(  # type: ignore[no-any-return]  # plain data in, plain data out
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
        "weighting": _weighting(config, runs),
        "names": {} if config is None else _names(config),
        "milestones": judged,
        "curves": {**_curves(runs), **_milestone_curves(judged)},
        "shown": next((p["name"] for p in done if p["reverse"]), None),
    }


def summary(measurements: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation over seeds (n - 1; None for one), and what they are of."""
    values = [f["value"] for f in measurements if f["value"] is not None]
    first, mean = measurements[0], statistics.fmean(values) if values else None
    nothing = first.get("knows_nothing")
    return {
        "mean": mean,
        "sd": statistics.stdev(values) if len(values) > 1 else None,
        "n": len(values),
        "standard_error": first["standard_error"] if len(values) == 1 else None,
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


# -- curves


def _curves(runs: Sequence[RunFolder]) -> dict[str, Any]:
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


def _weighting(config: Config | None, runs: Sequence[RunFolder]) -> dict[str, Any] | None:
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


# -- the paper beside ours


def _paper(groups: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rows = []
    for quoted in ROWS:
        ours = [
            {"label": g["label"], **{key: g["figures"].get(name) for key, name in OURS.items()}}
            for g in groups
            if quoted.weighting is not None
            and g["names"].get("process") == quoted.process
            and g["names"].get("weighting") == quoted.weighting
            and g["finished"]
        ]
        rows.append({**attrs.asdict(quoted), "ours": ours})
    return {"setting": SETTING, "rows": rows}


# -- how it is shown


def displays(comparison: Comparison) -> dict[str, Any]:
    """Measurement -> how its metric wants it shown; what a metric does not say is left out."""
    try:
        metrics = comparison.protocol.build().values()
    except ElbowroomError:  # each point says why
        return {}
    return {name: one.record() for metric in metrics for name, one in metric.display.items()}


def title_of(results: Mapping[str, Any], name: str) -> str:
    """A measurement's name for people."""
    return _display(results, name).title


def _display(results: Mapping[str, Any], name: str) -> Display:
    return Display(**results.get("display", {}).get(name, {"title": name}))


def shown_measurements(results: Mapping[str, Any], *, narrow: bool = False) -> dict[str, str]:
    """The measurements that make columns, with their titles; fewer where there is little room."""
    found = dict.fromkeys(name for group in results["groups"] for name in group["figures"])
    shown = {name: _display(results, name) for name in found}
    wanted = ("always",) if narrow else ("always", "report")
    return {name: one.title for name, one in shown.items() if one.shown in wanted}


def condition_of(results: Mapping[str, Any]) -> str:
    """What measurements are given, in words: ``bits/dim are given the label``; else empty."""
    words = []
    for name, title in shown_measurements(results).items():
        of = [group["figures"].get(name, {}).get("of", {}) for group in results["groups"]]
        if given := {one["given"] for one in of if one.get("given")}:
            words.append(f"{title} are given {' or '.join(sorted(given))}")
    return ", ".join(words)


def best_of(results: Mapping[str, Any]) -> dict[str, int]:
    """Measurement -> the group that does best in it; none where they cannot be ranked.

    A vacuous measurement has no rank, and to be better than one is no merit.
    """
    best = {}
    for name in shown_measurements(results):
        said = {
            k: (group["figures"][name]["mean"], group["figures"][name]["better"])
            for k, group in enumerate(results["groups"])
            if name in group["figures"]
            and group["figures"][name]["mean"] is not None
            and not group["figures"][name].get("vacuous")
        }
        ways = {better for _, better in said.values()}
        ranked = len(ways) == 1 and None not in ways and _display(results, name).ranked
        if len(said) > 1 and ranked:
            choose = min if ways == {"lower"} else max
            best[name] = choose(said, key=lambda k: said[k][0])
    return best


def column_of(results: Mapping[str, Any], name: str) -> Column:
    """How this measurement is written, the same for every group."""
    return Column.of(group["figures"].get(name) for group in results["groups"])


def paper_columns(results: Mapping[str, Any]) -> dict[str, Column]:
    """How our measurements beside the paper's are written."""
    return {key: column_of(results, name) for key, name in OURS.items()}


def floor_of(results: Mapping[str, Any], name: str) -> float | None:
    """What real data gets in a measurement."""
    for group in results["groups"]:
        floor: float | None = group["figures"].get(name, {}).get("floor")
        if floor is not None:
            return floor
    return None


def knows_nothing_of(results: Mapping[str, Any], name: str) -> float | None:
    """What a model that knows nothing gets in a measurement; None where that differs by group."""
    said = {group["figures"].get(name, {}).get("knows_nothing") for group in results["groups"]}
    said.discard(None)
    return said.pop() if len(said) == 1 else None


def knows_nothing_words(results: Mapping[str, Any]) -> str:
    """The name of that row, with what it is: ``knows nothing: log₂ 17``."""
    words = dict.fromkeys(
        measurement["of"]["knows_nothing"]
        for group in results["groups"]
        for measurement in group["figures"].values()
        if "knows_nothing" in measurement["of"]
    )
    return ": ".join(["knows nothing", *([", ".join(words)] if words else [])])


# -- files


def write_results(results: Mapping[str, Any], out: Path) -> dict[str, Path]:
    """results.json and results.csv."""
    paths = {"json": out / "results.json", "csv": out / "results.csv"}
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ElbowroomError(f"cannot write to {out}: {error.strerror}") from error
    write_atomically(paths["json"], json.dumps(results, indent=1, allow_nan=False).encode())
    write_atomically(paths["csv"], as_csv(results).encode())
    return paths


_COLUMNS_OF = {
    "": "value",
    "_se": "standard_error",
    "_floor": "floor",
    "_knows_nothing": "knows_nothing",
    "_vacuous": "vacuous",
}
"""The columns of a measurement, what is added to its name, and where they are in its record."""


def as_csv(results: Mapping[str, Any]) -> str:
    """One line a point, or one for each of its milestones."""
    points = results["points"]
    varied = list(results["vary"])
    measurements = list(dict.fromkeys(name for point in points for name in point["figures"]))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    head = [*varied, "seed", "status", "reason", "folder", "parameters", "calls", "step"]
    tail = [f"{name}{part}" for name in measurements for part in _COLUMNS_OF]
    writer.writerow([*head, *tail])
    for point in points:
        shared = [point["values"][key] for key in varied]
        shared += [point[key] for key in head[len(varied) : -1]]
        for judged in point.get("milestones") or [point]:
            row = [*shared, judged["step"]]
            for name in measurements:
                measurement = judged["figures"].get(name, {})
                row += [measurement.get(key) for key in _COLUMNS_OF.values()]
            writer.writerow(["" if value is None else value for value in row])
    return text.getvalue()

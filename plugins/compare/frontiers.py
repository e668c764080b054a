"""Frontiers: what quality costs, in network calls of a sample and in operations of training.

A model with cost c and quality q is on the frontier when none is as good for less: no other has

    c' <= c  and  q' at least as good as q,      one of them strictly.

Costs are the mean network calls of a sample, and steps * operations of a training step. A model
that was judged at milestones is a point at each of them. Quality is the mean over seeds; what is
vacuous, worse than knowing nothing, is on no frontier.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import attrs
from elbowroom import Config, ElbowroomError, installed

from .axes import short_value
from .presentation import is_ranked, shown_measurements, title_of
from .shared_training import training_of


@attrs.frozen
class Cost:
    """Something that is spent."""

    name: str
    title: str
    along: str  # the config value that a line runs along: how much of it is spent
    varied_by: tuple[str, ...]  # config values that change it
    of_samples: bool  # does it matter to measurements of samples alone?

    def is_varied(self, keys: Sequence[str]) -> bool:
        """Does a comparison that varies these config values vary the cost?"""
        return any(
            key == root or key.startswith(f"{root}.") for key in keys for root in self.varied_by
        )


CALLS = Cost("calls", "network calls a sample", "sampler.steps", ("sampler",), of_samples=True)
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

    line: str  # which line it is on
    cost: float
    value: float
    spread: float | None  # standard error
    label: str  # of the model
    vacuous: bool = False


def frontiers(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every plot: a cost, and its panels of one measurement each with lines and frontier."""
    found = []
    for cost, spots in ((CALLS, _calls), (COMPUTE, _compute)):
        panels = [
            _panel(name, title, results, list(spots(results, name)))
            for name, title in _qualities(results, cost).items()
        ]
        panels = [panel for panel in panels if panel is not None]
        if panels:
            found.append({"cost": cost.name, "title": cost.title, "panels": panels})
    return found


def pareto(spots: Sequence[tuple[float, float]], better: str) -> list[int]:
    """Which (cost, value) no other dominates, by rising cost."""
    sign = 1.0 if better == "lower" else -1.0
    order = sorted(range(len(spots)), key=lambda k: (spots[k][0], sign * spots[k][1]))
    kept: list[int] = []
    for k in order:
        cost, value = spots[k]
        best = sign * spots[kept[-1]][1] if kept else float("inf")
        if sign * value < best or (kept and spots[kept[-1]] == (cost, value)):
            kept.append(k)
    return kept


def _qualities(results: Mapping[str, Any], cost: Cost) -> dict[str, str]:
    """The measurements that rank models, with their titles; of samples alone where those cost."""
    return {
        name: title_of(results, name)
        for name in shown_measurements(results, narrow=True)
        if is_ranked(results, name)
        and (not cost.of_samples or any("samples" in one["of"] for one in _of(results, name)))
    }


def _of(results: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    return [g["figures"][name] for g in results["groups"] if name in g["figures"]]


def _panel(
    name: str, title: str, results: Mapping[str, Any], spots: Sequence[Spot]
) -> dict[str, Any] | None:
    """One measurement; None where fewer than two costs are known."""
    if len({spot.cost for spot in spots}) < 2:
        return None
    better = _of(results, name)[0]["better"]
    merits = [spot for spot in spots if not spot.vacuous]
    front = pareto([(spot.cost, spot.value) for spot in merits], better)
    lines: dict[str, list[Spot]] = {}
    for spot in sorted(spots, key=lambda spot: spot.cost):
        lines.setdefault(spot.line, []).append(spot)
    ordered = dict.fromkeys(spot.line for spot in spots)  # as the models are listed
    return {
        "measurement": name,
        "title": title,
        "better": better,
        "lines": [
            {"label": label, "points": [_record(spot) for spot in lines[label]]}
            for label in ordered
        ],
        "frontier": [_record(merits[k]) for k in front],
    }


def _record(spot: Spot) -> dict[str, Any]:
    return {k: v for k, v in attrs.asdict(spot).items() if k != "line"}


def _spot(line: str, cost: float, summary: Mapping[str, Any], label: str) -> Iterator[Spot]:
    if summary["mean"] is not None:
        vacuous = bool(summary.get("vacuous"))
        yield Spot(line, cost, summary["mean"], summary["standard_error"], label, vacuous)


def _calls(results: Mapping[str, Any], name: str) -> Iterator[Spot]:
    """Each model at the calls of its samples."""
    if not CALLS.is_varied(list(results["vary"])):
        return
    for group in results["groups"]:
        calls = group["budget"].get("network calls a sample")
        if name in group["figures"] and calls:
            line = _line(group, CALLS.along)
            yield from _spot(line, calls, group["figures"][name], group["label"])


def _compute(results: Mapping[str, Any], name: str) -> Iterator[Spot]:
    """Each model at the operations of its training, and at those of its milestones."""
    for group in results["groups"]:
        each, steps = group.get("step_flops"), group["budget"].get("training steps")
        if name not in group["figures"] or not each or not steps:
            continue
        judged = group.get("milestones", {}).get(name) or {steps: group["figures"][name]}
        for step, summary in judged.items():
            label = f"{group['label']}, {int(step):,} steps"
            yield from _spot(_line(group, COMPUTE.along), int(step) * each, summary, label)


def _line(group: Mapping[str, Any], along: str) -> str:
    """What a model is called but for what its line runs along."""
    values = [short_value(value) for key, value in group["values"].items() if key != along]
    return " · ".join(values) or "as configured"


# -- operations of a training step


def asks_for_operations(keys: Sequence[str], configs: Sequence[Config | None]) -> bool:
    """Does training compute differ, along a run or between models? Counting takes some time."""
    return COMPUTE.is_varied(keys) or any(c is not None and c.train.milestones for c in configs)


class Operations:
    """Counts what a step of training takes, once for equal trainings."""

    def __init__(self) -> None:
        self._known: dict[str, float | None] = {}

    def of_step(self, config: Config | None) -> float | None:
        """By the plugin that counts costs; None where it is not there, or cannot tell."""
        count = installed().commands().get("cost")
        if config is None or count is None:
            return None
        key = json.dumps(training_of(config), sort_keys=True)
        if key not in self._known:
            self._known[key] = None
            with suppress(ElbowroomError):
                self._known[key] = count.python_form()(config).step_flops
        return self._known[key]

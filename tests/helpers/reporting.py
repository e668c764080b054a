"""Results as a comparison writes them, made up, with pictures in the run folders."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from elbowroom.plugins.compare.differences import differences
from elbowroom.plugins.compare.results import budgets, summary
from elbowroom.plugins.evaluation.metric import is_vacuous
from elbowroom.plugins.metrics.bpd import BitsPerDim
from elbowroom.plugins.metrics.fid import FID
from elbowroom.plugins.metrics.inception_score import InceptionScore
from elbowroom.plugins.metrics.neighbours import Neighbours
from elbowroom.plugins.sampling.filmstrip import save_small_png

METRICS = (BitsPerDim, FID, InceptionScore, Neighbours)
DISPLAY = {name: one.record() for metric in METRICS for name, one in metric.display.items()}
NASTY = "<script>window.hacked = 1</script>\"'&"


def measurement(
    value: float,
    better: str | None = "lower",
    floor: float | None = None,
    knows_nothing: float | None = None,
) -> dict[str, Any]:
    said = {} if knows_nothing is None else {"knows_nothing": "log₂ 17"}
    return {
        "knows_nothing": knows_nothing,
        "vacuous": is_vacuous(value, better, knows_nothing),
        "value": value,
        "standard_error": 0.1,
        "better": better,
        "floor": floor,
        "of": {"metric": "m", "features": "classifier", "samples": 100, "note": NASTY, **said},
    }


def results(
    folder: Path,
    labels: tuple[str, ...] = ("gaussian", "masked"),
    *,
    paper: bool = False,
    seeds: int = 1,
    knows_nothing: float | None = None,
):
    """Two models and one that failed, with curves, shapes and pictures."""
    points, groups = [], []
    for k, label in enumerate(labels):
        same = [_point(folder, k, label, seed, knows_nothing) for seed in range(seeds)]
        points += same
        groups.append(_group(k, label, same))
    return {
        "format": 1, "elbowroom": "0.1.0", "title": f"x: {NASTY}", "source": NASTY,
        "overrides": [], "vary": {"process": list(labels)}, "seeds": list(range(seeds)),
        "protocol": {"samples": 100, "seed": 0, "checkpoint": "last", "metrics": []},
        "points": points, "groups": groups, "display": DISPLAY,
        "differences": differences(groups, points),
        "data": [{"name": "digits", "options": {"path": NASTY}, "models": list(labels)}],
        "budgets": budgets(groups), "paper": _paper(groups) if paper else None,
    }  # fmt: skip


def _point(
    folder: Path, k: int, label: str, seed: int, knows_nothing: float | None
) -> dict[str, Any]:
    failed = label == "broken"
    measurements = {} if failed else {
        "bits_per_dim": measurement(2.0 + k + 0.4 * seed, knows_nothing=knows_nothing),
        "fid_train": measurement(5.0 - k + 0.4 * seed, floor=1.5),
        "is": measurement(6.0 + k * (-1) ** seed, "higher", 7.0),
        "neighbours_mean": measurement(0.2, None, 0.13),
    }  # fmt: skip
    name = f"point-{k}-{seed}"
    reverse = None if failed else _pictures(folder / "points" / name / "evaluation", k)
    return {
        "name": name, "label": label, "values": {"process": label}, "seed": seed,
        "status": "failed" if failed else "finished",
        "reason": f"no luck {NASTY}" if failed else "",
        "folder": f"points/{name}", "commands": [f"elbowroom train x process={label}"],
        "figures": measurements, "skipped": {"kid": NASTY}, "failed": {}, "step": 10,
        "parameters": 1000 + k,
        "calls": 16.0, "train_seconds": 3.0, "sampling_seconds": 1.0, "reverse": reverse,
    }  # fmt: skip


def _group(k: int, label: str, same: list[dict[str, Any]]) -> dict[str, Any]:
    point = same[0]
    steps = list(range(10, 110, 10))
    levels = [-6.0 + j for j in range(13)]
    shape = [[j / 10 for j in range(11)], [1.0 + (-1) ** k * j / 10 for j in range(11)]]
    curves = {
        "loss": [steps, [100.0 / s + k for s in steps]],
        "bits_per_dim": [[50, 100], [3.0, 2.5 + k]],
        "fid_train_over_training": [[25, 50, 100], [9.0, 4.0 - k, 2.0 + k]],
        "train_bits_per_dim": [steps, [30.0 / s + 2 for s in steps]],
        "elbo_by_level": [levels, [math.exp(-(x**2) / 4) for x in levels]],
        "loss_by_level": [levels, [0.0 if x < 0 else math.exp(-x) for x in levels]],
        "smoothed": {"loss": [steps, [100.0 / s + k for s in steps], [20.0 / s for s in steps]]},
        "errors": {"elbo_by_level": [levels, [0.05 for _ in levels]]},
    }
    done = point["status"] == "finished"
    return {
        "label": label, "values": point["values"], "points": [p["name"] for p in same],
        "finished": int(done) * len(same),
        "figures": {name: summary([p["figures"][name] for p in same]) for name in point["figures"]},
        "budget": {"data": "digits", "parameters": point["parameters"], "training steps": 100},
        "weighting": {
            "name": label, "options": "", "schedule": "cosine", "process": label,
            "is_bound": k % 2 == 0,
            "verdict": "a bound: it is" if k % 2 == 0 else "not a bound: no",
            "isotonic_distance": 0.0, "shape": shape,
        },
        "names": {"process": label, "weighting": label, "data": "digits"},
        "curves": curves if done else dict.fromkeys(curves),
        "shown": point["name"] if done else None,
    }  # fmt: skip


def _paper(groups: list[dict[str, Any]]) -> dict[str, Any]:
    ours = [{"label": groups[0]["label"], "fid": groups[0]["figures"]["fid_train"], "is": None}]
    row = {"process": "masked", "model": "masked 204M", "weighting": "elbo", "fid": 6.84}
    return {"setting": "ImageNet", "rows": [{**row, "inception_score": 30.3, "ours": ours}]}


def _pictures(folder: Path, k: int, frames: int = 5) -> dict[str, Any]:
    """Frames of a plain shade each: a test can tell which one is shown."""
    folder.mkdir(parents=True)
    strip = torch.zeros(10, 20 * frames, 3, dtype=torch.uint8)
    for j in range(frames):
        strip[:, 20 * j : 20 * (j + 1)] = 40 * j + 10 * k
    save_small_png(strip, folder / "reverse.png")
    save_small_png(strip[:, -20:], folder / "samples.png")
    return {"frames": frames, "steps": list(range(frames)), "width": 20, "height": 10}

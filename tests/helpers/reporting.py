"""Results of a comparison, made up, with images in the run folders."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import attrs
import torch
from elbowroom.plugins.compare.loss_curves import Curve, WeightingShape
from elbowroom.plugins.compare.point import Evaluated, Point
from elbowroom.plugins.compare.real_data import DataShown
from elbowroom.plugins.compare.results import Model, Results, Summary
from elbowroom.plugins.evaluation.metric import Measurement
from elbowroom.plugins.evaluation.protocol import EvaluationProtocol
from elbowroom.plugins.metrics.bpd import BitsPerDim
from elbowroom.plugins.metrics.fid import FID
from elbowroom.plugins.metrics.inception_score import InceptionScore
from elbowroom.plugins.metrics.neighbours import Neighbours
from elbowroom.plugins.sampling.filmstrip import save_small_png

METRICS = (BitsPerDim, FID, InceptionScore, Neighbours)
DISPLAY = {name: one for metric in METRICS for name, one in metric.display.items()}
NASTY = "<script>window.hacked = 1</script>\"'&"


def measurement(
    value: float,
    better: str | None = "lower",
    floor: float | None = None,
    uniform_baseline: float | None = None,
) -> Measurement:
    baseline = {} if uniform_baseline is None else {"uniform_baseline": "log₂ 17"}
    of = {"metric": "m", "features": "classifier", "samples": 100, "note": NASTY, **baseline}
    return Measurement(value, 0.1, better, floor, of, uniform_baseline)


def point(
    folder: Path,
    name: str = "point",
    measurements: dict[str, Measurement] | None = None,
    **options: Any,
) -> Point:
    """A point that finished with these measurements; without any it failed."""
    made = Point(
        name,
        folder / "points" / name,
        folder / "jobs" / name,
        None,
        EvaluationProtocol(),
        **options,
    )
    if measurements is not None:
        made.status = "finished"
        made.evaluated = Evaluated(step=10, measurements=measurements, parameters=1000)
    return made


def models(folder: Path, table: dict[str, dict[int, Measurement | None]]) -> list[Model]:
    """Models of ``{label: {seed: FID}}``; None did not finish."""
    made = []
    for label, seeds in table.items():
        points = [
            point(folder, f"{label}-{seed}", None if one is None else {"fid": one}, seed=seed)
            for seed, one in seeds.items()
        ]
        made.append(summarised(Model(label, {"process": label}, points)))
    return made


def summarised(model: Model) -> Model:
    """A model with the summaries of its points."""
    done = [one.evaluated.measurements for one in model.finished]
    names = dict.fromkeys(name for run in done for name in run)
    model.measurements = {n: Summary.over([run[n] for run in done if n in run]) for n in names}
    return model


def changed(model: Model, name: str, **options: Any) -> None:
    """Change the summary of one measurement."""
    model.measurements[name] = attrs.evolve(model.measurements[name], **options)


def results(
    folder: Path,
    labels: tuple[str, ...] = ("gaussian", "masked"),
    *,
    seeds: int = 1,
    uniform_baseline: float | None = None,
) -> Results:
    """Models with curves, shapes and images; the label ``broken`` failed."""
    made = [
        _model(
            k, label, [_point(folder, k, label, seed, uniform_baseline) for seed in range(seeds)]
        )
        for k, label in enumerate(labels)
    ]
    return Results(
        source=NASTY,
        out=folder,
        vary={"process": list(labels)},
        protocol={"samples": 100, "seed": 0, "checkpoint": "last", "metrics": []},
        points=[one for model in made for one in model.points],
        models=made,
        display=DISPLAY,
        data=[DataShown(name="digits", options={"path": NASTY}, models=list(labels))],
    )


def _point(folder: Path, k: int, label: str, seed: int, uniform_baseline: float | None) -> Point:
    name, options = f"point-{k}-{seed}", {"values": {"process": label}, "seed": seed}
    options["commands"] = [f"elbowroom train x process={label}"]
    if label == "broken":
        return point(folder, name, status="failed", reason=f"no luck {NASTY}", **options)
    found = {
        "bits_per_dim": measurement(2.0 + k + 0.4 * seed, uniform_baseline=uniform_baseline),
        "fid_train": measurement(5.0 - k + 0.4 * seed, floor=1.5),
        "is": measurement(6.0 + k * (-1) ** seed, "higher", 7.0),
        "neighbours_mean": measurement(0.2, None, 0.13),
    }
    made = point(folder, name, found, **options)
    made.evaluated = attrs.evolve(
        made.evaluated,
        skipped={"kid": NASTY},
        parameters=1000 + k,
        calls=16.0,
        train_seconds=3.0,
        reverse=_pictures(made.folder / "evaluation", k),
    )
    return made


def _model(k: int, label: str, points: list[Point]) -> Model:
    steps = list(range(10, 110, 10))
    levels = [-6.0 + j for j in range(13)]
    shape = [j / 10 for j in range(11)], [1.0 + (-1) ** k * j / 10 for j in range(11)]
    falling = [100.0 / s + k for s in steps]
    bell = [math.exp(-(x**2) / 4) for x in levels]
    curves = {
        "loss": Curve(steps, falling, smoothed=(steps, falling, [20.0 / s for s in steps])),
        "bits_per_dim": Curve([50, 100], [3.0, 2.5 + k]),
        "fid_train_over_training": Curve([25, 50, 100], [9.0, 4.0 - k, 2.0 + k]),
        "train_bits_per_dim": Curve(steps, [30.0 / s + 2 for s in steps]),
        "elbo_by_level": Curve(levels, bell, error=[0.05 for _ in levels]),
        "loss_by_level": Curve(levels, [0.0 if x < 0 else math.exp(-x) for x in levels]),
    }
    done = label != "broken"
    model = Model(
        label,
        {"process": label},
        points,
        budget={"data": "digits", "parameters": 1000 + k, "training steps": 100},
        curves=curves if done else {},
        weighting=WeightingShape(
            name=label,
            options="",
            schedule="cosine",
            process=label,
            is_bound=k % 2 == 0,
            verdict="a bound: it is" if k % 2 == 0 else "not a bound: no",
            isotonic_distance=0.0,
            shape=shape,
        ),
    )
    return summarised(model)


def _pictures(folder: Path, k: int, frames: int = 5) -> dict[str, Any]:
    """Frames of a plain shade each: a test can tell which one is shown."""
    folder.mkdir(parents=True)
    strip = torch.zeros(10, 20 * frames, 3, dtype=torch.uint8)
    for j in range(frames):
        strip[:, 20 * j : 20 * (j + 1)] = 40 * j + 10 * k
    save_small_png(strip, folder / "reverse.png")
    save_small_png(strip[:, -20:], folder / "samples.png")
    return {"frames": frames, "steps": list(range(frames)), "width": 20, "height": 10}

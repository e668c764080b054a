"""How time and memory grow: one process a point, so that each has its own peak.

    python docs/benchmarks/scaling.py --out docs/images/scaling.png

Every round visits every point, so that a busy minute does not fall on one of them alone; what is
drawn is the median over rounds, with its range. Event-driven and step-by-step sampling take turns
in one process. Evaluation is that of an untrained network with four sampling steps: what matters
there is its memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

BASE = {"size": 8, "levels": 17, "batch": 64, "depth": 3, "width": 96}
TRAIN = {
    "resolution (side)": ("size", [8, 16, 32]),
    "batch": ("batch", [16, 64, 256]),
    "depth": ("depth", [2, 4, 8, 16]),
    "vocabulary": ("levels", [17, 64, 256]),
}
STEPS = [16, 64, 256]
EVALUATED = [500, 2000, 8000]


def model_of(point: dict):
    import torch
    from elbowroom import DataSpec, Diffusion, Objective
    from elbowroom.plugins.denoisers.uvit import UViT
    from elbowroom.plugins.masked.process import Masked
    from elbowroom.plugins.schedules.masking import Cosine
    from elbowroom.plugins.time_samplers.uniform import Stratified
    from elbowroom.plugins.weightings.simple import Simple

    torch.manual_seed(0)
    process = Masked().bind(DataSpec((point["size"], point["size"], 1), point["levels"], 10))
    network = UViT(process.signature(), width=point["width"], depth=point["depth"])
    return Diffusion(Objective.prepared(process, Cosine(), Simple(), Stratified()), network)


def timed(run, times: int) -> float:
    seconds = []
    for n in range(times):
        began = time.perf_counter()
        run(n)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def train(point: dict) -> dict[str, float]:
    """The median seconds of a train step."""
    import torch
    from elbowroom import Noise

    model, batch = model_of(point), point["batch"]
    x = torch.randint(point["levels"], (batch, point["size"], point["size"], 1))
    y = torch.arange(batch) % 10
    optimiser = torch.optim.AdamW(model.parameters(), fused=True)

    def step(n: int) -> None:
        model(x, y, Noise.of(0, batch, step=n)).loss.backward()
        optimiser.step()
        optimiser.zero_grad()

    step(0)
    return {"": timed(step, 5)}


def sample(point: dict) -> dict[str, float]:
    """The median seconds of drawing 16 samples both ways, in turns."""
    import torch
    from elbowroom import Noise
    from elbowroom.plugins.samplers.ancestral import Ancestral

    model, labels = model_of(point).eval(), torch.arange(16) % 10
    ways = {"event-driven": True, "every step": False}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    with torch.no_grad():
        for n in range(4):
            for name, skip in ways.items():
                sampler = Ancestral(steps=point["steps"], skip=skip)
                began = time.perf_counter()
                sampler.sample(model, Noise.of(n, 16), labels)
                seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(values[1:]) for name, values in seconds.items()}


def evaluation(point: dict) -> dict[str, float]:
    """The seconds of evaluating so many samples by every usual metric."""
    import elbowroom as er
    from elbowroom.plugins.datasets.digits import Digits
    from elbowroom.plugins.evaluation.evaluation import evaluate
    from elbowroom.plugins.evaluation.protocol import EvaluationProtocol

    model = er.assemble("digits", sampler={"name": "ancestral", "steps": 4})
    return {
        "": timed(
            lambda _: evaluate(model, Digits(), EvaluationProtocol(samples=point["samples"])), 1
        )
    }


MEASURES = {"train": train, "sample": sample, "evaluation": evaluation}


def panels() -> dict[str, list[tuple[int, dict]]]:
    """Title -> (x, point) of everything that is measured."""
    found = {
        title: [(v, {**BASE, key: v, "measure": "train"}) for v in values]
        for title, (key, values) in TRAIN.items()
    }
    found["sampling steps (16 samples)"] = [
        (n, {**BASE, "steps": n, "measure": "sample"}) for n in STEPS
    ]
    found["samples evaluated"] = [(n, {"samples": n, "measure": "evaluation"}) for n in EVALUATED]
    return found


def in_a_process(point: dict) -> dict:
    command = [sys.executable, __file__, "--point", json.dumps(point)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)


def draw_figure(measured: dict, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3 * len(measured), 6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, len(measured), squeeze=False)
    for column, (title, points) in enumerate(measured.items()):
        x = [point["x"] for point in points]
        for name in points[0]["seconds"]:
            _line(axes[0][column], x, [point["seconds"][name] for point in points], name)
        _line(axes[1][column], x, [point["peak_mib"] for point in points], "")
        for row, label in enumerate(("seconds", "peak MiB of the process")):
            panel = axes[row][column]
            panel.set_xscale("log")
            panel.set_xticks(x, [f"{value}" for value in x])
            panel.minorticks_off()
            panel.set_ylim(0, 1.15 * panel.get_ylim()[1])
            panel.set_xlabel(title)
            panel.set_ylabel(label)
            panel.grid(alpha=0.25)
        if "" not in points[0]["seconds"]:
            axes[0][column].legend(frameon=False)
    figure.savefig(path, dpi=110)


def _line(panel, x: list[int], rounds: list[list[float]], label: str) -> None:
    middle = [statistics.median(values) for values in rounds]
    below = [m - min(values) for m, values in zip(middle, rounds, strict=True)]
    above = [max(values) - m for m, values in zip(middle, rounds, strict=True)]
    panel.errorbar(x, middle, [below, above], fmt="o-", capsize=2, label=label or None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("scaling.png"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--point", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.point:
        point = json.loads(options.point)
        seconds = MEASURES[point["measure"]](point)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"seconds": seconds, "peak_mib": peak}))
        return
    measured: dict[str, list[dict]] = {
        title: [{"x": x, "seconds": {}, "peak_mib": []} for x, _ in points]
        for title, points in panels().items()
    }
    for _ in range(options.rounds):
        for title, points in panels().items():
            for (_, point), kept in zip(points, measured[title], strict=True):
                found = in_a_process(point)
                for name, value in found["seconds"].items():
                    kept["seconds"].setdefault(name, []).append(value)
                kept["peak_mib"].append(found["peak_mib"])
    for title, points in measured.items():
        for point in points:
            times = ", ".join(
                f"{name or 'time'} {statistics.median(v):.3f} s ({min(v):.3f} to {max(v):.3f})"
                for name, v in point["seconds"].items()
            )
            print(f"{title} {point['x']}: {times}, {statistics.median(point['peak_mib']):.0f} MiB")
    draw_figure(measured, options.out)
    options.out.with_suffix(".json").write_text(json.dumps(measured, indent=1))


if __name__ == "__main__":
    main()

"""How time and memory grow: one process a point, so that each has its own peak.

python docs/benchmarks/scaling.py --out docs/images/scaling.png
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

BASE = {"size": 8, "levels": 17, "batch": 64, "depth": 3, "width": 96, "steps": 0, "skip": True}
PANELS = {
    "resolution (side)": ("size", [8, 16, 32]),
    "batch": ("batch", [16, 64, 256]),
    "depth": ("depth", [2, 4, 8, 16]),
    "vocabulary": ("levels", [17, 64, 256]),
}
STEPS = [16, 64, 256]


def measure(point: dict) -> dict:
    """The median seconds of a train step (or of drawing 16 samples) and the peak memory."""
    import torch
    from elbowroom import DataSpec, Diffusion, Noise
    from elbowroom.objective import Objective
    from elbowroom.plugins.masked.process import Masked
    from elbowroom.plugins.samplers.ancestral import Ancestral
    from elbowroom.plugins.schedules.masking import Cosine
    from elbowroom.plugins.time_samplers.uniform import Stratified
    from elbowroom.plugins.uvit.uvit import UViT
    from elbowroom.plugins.weightings.simple import Simple

    torch.manual_seed(0)
    process = Masked().bind(DataSpec((point["size"], point["size"], 1), point["levels"], 10))
    network = UViT(process.signature(), width=point["width"], depth=point["depth"])
    objective = Objective.prepared(process, Cosine(), Simple(), Stratified())
    model = Diffusion(objective, network)
    batch = point["batch"]
    x = torch.randint(point["levels"], (batch, point["size"], point["size"], 1))
    y = torch.arange(batch) % 10
    optimiser = torch.optim.AdamW(model.parameters(), fused=True)

    def train(n: int) -> None:
        model(x, y, Noise.of(0, batch, step=n)).loss.backward()
        optimiser.step()
        optimiser.zero_grad()

    def draw(n: int) -> None:
        sampler = Ancestral(steps=point["steps"], skip=point["skip"])
        with torch.no_grad():
            sampler.sample(model.eval(), Noise.of(n, 16), y[:16])

    run = draw if point["steps"] else train
    run(0)
    seconds = []
    for n in range(1, 6):
        began = time.perf_counter()
        run(n)
        seconds.append(time.perf_counter() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**point, "seconds": statistics.median(seconds), "peak_mib": peak}


def in_a_process(point: dict) -> dict:
    command = [sys.executable, __file__, "--point", json.dumps(point)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)


def draw_figure(curves: dict, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, len(curves), squeeze=False)
    for column, (name, rows) in enumerate(curves.items()):
        for row, (key, label) in enumerate((("seconds", "seconds"), ("peak_mib", "peak MiB"))):
            panel = axes[row][column]
            for line, points in rows.items():
                panel.plot(
                    [p["x"] for p in points], [p[key] for p in points], "o-", label=line or None
                )
            panel.set_xscale("log", base=2)
            panel.set_ylim(bottom=0)
            panel.set_xlabel(name)
            panel.set_ylabel(label)
            panel.grid(alpha=0.25)
            if any(rows):
                panel.legend(frameon=False)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("scaling.png"))
    parser.add_argument("--point")
    options = parser.parse_args()
    if options.point:
        print(json.dumps(measure(json.loads(options.point))))
        return
    curves: dict = {}
    for name, (key, values) in PANELS.items():
        points = [{**in_a_process({**BASE, key: value}), "x": value} for value in values]
        curves[name] = {"": points}
        for point in points:
            print(f"{name} {point['x']}: {point['seconds']:.3f} s, {point['peak_mib']:.0f} MiB")
    curves["sampling steps (16 samples)"] = {}
    for line, skip in (("event-driven", True), ("every step", False)):
        points = [{**in_a_process({**BASE, "steps": n, "skip": skip}), "x": n} for n in STEPS]
        curves["sampling steps (16 samples)"][line] = points
        for point in points:
            print(f"{line}, {point['x']} steps: {point['seconds']:.3f} s")
    draw_figure(curves, options.out)
    options.out.with_suffix(".json").write_text(json.dumps(curves, indent=1))


if __name__ == "__main__":
    main()

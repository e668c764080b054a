"""Train each of several recipes at its own best learning rate, with several seeds.

    python docs/benchmarks/best_rate.py DIR digits denoiser.channels=32 train.evaluate_every=null \
        --vary process=masked,gaussian --vary weighting=elbo,sigmoid,simple \
        --vary objective.times=stratified,adaptive --rate 6e-3 --seeds 3 --jobs 2

Rates are tried with seed 0, each twice the last, until the best one has a worse one on either
side or six were tried; the other seeds run at the best alone. A point is a call of ``elbowroom
compare`` with one thread, in a folder of its own below DIR, DIR/RECIPE/RATE/seed-N; finished ones
are not run again, so the same command goes on where it was stopped. At the end it prints the best
rate of each recipe and the other rates that were tried.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from elbowroom.plugins.compare.axes import Axis

METRICS = ("{name: bpd, split: validation}", "fid", "is")
MOST = 6  # rates of one recipe: where none is the best by then, the rate is not what is wrong


def recipes(varied: Sequence[str]) -> Iterator[list[str]]:
    """Each choice of one value for every ``KEY=A,B``, as overrides."""
    axes = [Axis.parse(one) for one in varied]
    for chosen in itertools.product(*(axis.values for axis in axes)):
        yield [f"{axis.key}={value}" for axis, value in zip(axes, chosen, strict=True)]


def folder_name(value: str) -> str:
    """A value with what no folder should have in its name as dashes; signs of numbers stay."""
    return re.sub(r"[^\w.+-]+", "-", value.strip("{} ")).strip(".")


def best_inside(first: float, figure_at: Callable[[float], float]) -> dict[float, float]:
    """The figure at each rate tried: the first, its doubles and halves until the best is inside.

    A rate at which training fails, or ends at no number, is worse than any other.
    """
    tried = {rate: figure_at(rate) for rate in (first, 2 * first)}
    while len(tried) < MOST:
        best = min(tried, key=tried.__getitem__)
        if best == min(tried):
            tried[best / 2] = figure_at(best / 2)
        elif best == max(tried):
            tried[best * 2] = figure_at(best * 2)
        else:
            break
    return dict(sorted(tried.items()))


class Recipe:
    """One recipe: its points run when they are asked for."""

    def __init__(self, overrides: Sequence[str], options: argparse.Namespace) -> None:
        self.overrides = list(overrides)
        self.name = "-".join(folder_name(one.partition("=")[2]) for one in overrides) or "all"
        self.options = options

    def run(self) -> tuple[str, dict[float, float]]:
        """Search the rate, then the other seeds at the best; what was tried."""
        tried = best_inside(self.options.rate, lambda rate: self.figure(rate, 0))
        best = min(tried, key=tried.__getitem__)
        for seed in range(1, self.options.seeds):
            self.figure(best, seed)
        return self.name, tried

    def figure(self, rate: float, seed: int) -> float:
        """What a point found, run now if it was not before."""
        folder = self.options.folder / self.name / f"{rate:g}" / f"seed-{seed}"
        began = time.perf_counter()
        value = read(folder, self.options.by)
        if value is None:
            self.train(folder, rate, seed)
            value = read(folder, self.options.by)
            if value is None:
                print(f"{folder} has no {self.options.by}: see printed.txt there", flush=True)
                return math.inf
        seconds = time.perf_counter() - began
        print(f"{self.name}, rate {rate:g}, seed {seed}: {value:.4f}, {seconds:.0f} s", flush=True)
        return math.inf if math.isnan(value) else value

    def train(self, folder: Path, rate: float, seed: int) -> None:
        """Call ``elbowroom compare`` for one point."""
        folder.mkdir(parents=True, exist_ok=True)
        given = [self.options.config, *self.options.override, *self.overrides]
        given += [f"train.learning_rate={rate:g}", f"seed={seed}"]
        metrics = [word for one in self.options.metric or METRICS for word in ("--metric", one)]
        with (folder / "printed.txt").open("w", encoding="utf-8") as printed:
            subprocess.run(
                [sys.executable, "-m", "elbowroom", "compare", *given, *metrics, "--out", folder],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                stdout=printed,
                stderr=subprocess.STDOUT,
                check=False,
            )


def read(folder: Path, figure: str) -> float | None:
    """A figure of the one point of a comparison, if it is there."""
    path = folder / "results.json"
    points = json.loads(path.read_text("utf-8"))["points"] if path.exists() else []
    found = [one["figures"][figure]["value"] for one in points if one["status"] == "finished"]
    return float(found[0]) if found else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("config")
    parser.add_argument("override", nargs="*")
    parser.add_argument("--vary", action="append", default=[], metavar="KEY=A,B")
    parser.add_argument("--rate", type=float, default=6e-3, help="with which the search begins")
    parser.add_argument("--by", default="bits_per_dim", help="the figure that chooses the rate")
    parser.add_argument("--metric", action="append", help=f"default: {', '.join(METRICS)}")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    asked = [Recipe(overrides, options) for overrides in recipes(options.vary)]
    if len({recipe.name for recipe in asked}) < len(asked):
        parser.error("two recipes would have one folder: run them with a DIR each")
    with ThreadPoolExecutor(options.jobs) as pool:
        for name, tried in pool.map(Recipe.run, asked):
            told = ", ".join(f"{rate:g} {value:.4f}" for rate, value in tried.items())
            best = min(tried, key=tried.__getitem__)
            at_edge = " (at the edge of what was tried)" if best in (min(tried), max(tried)) else ""
            print(f"{name}: {told}; best {best:g}{at_edge}")


if __name__ == "__main__":
    main()

"""What training buys: figures of finished comparisons against the operations their training took.

    python docs/benchmarks/training_frontier.py DIR [DIR ...] --plot docs/images/training.png

Points of all comparisons that differ in nothing but the seed are one row: mean and standard
deviation over seeds. Prints a Markdown table, by the operations of a whole training (those of the
optimiser included, as ``elbowroom cost`` counts them), and draws bits/dim and FID against them, a
line for each recipe (data, process, denoiser, weighting, optimiser, times, batch size) at its best
rate by bits/dim.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import json
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import elbowroom as er
from elbowroom.config.spec import ComponentSpec
from elbowroom.runs.folder import RunFolder

COLUMNS = {
    "bits_per_dim": ("bits/dim", 3),
    "fid_train": ("FID train", 2),
    "fid_test": ("FID test", 2),
    "is": ("IS", 2),
}


@attrs.frozen(order=True)
class Recipe:
    """How a model was trained, but for its seed."""

    data: str
    process: str
    denoiser: str
    weighting: str
    optimiser: str
    times: str
    batch: str  # examples a step
    steps: int
    rate: float
    operations: float  # of the whole training

    @classmethod
    def of(cls, run: Path) -> Recipe:
        """From a run's config."""
        config = RunFolder.open(run).config()
        return cls(
            written(config.data),
            written(config.process),
            written(config.denoiser),
            written(config.weighting),
            written(config.train.optimiser),
            written(config.objective.times),
            str(config.train.batch_size),
            config.train.steps,
            config.train.learning_rate,
            er.cost(config).record()["flops"]["training"],
        )

    @property
    def line(self) -> tuple[str, ...]:
        """What the points of one line have in common."""
        return (
            self.data,
            self.process,
            self.denoiser,
            self.weighting,
            self.optimiser,
            self.times,
            self.batch,
        )


def written(value: Any) -> str:
    """A component by its name, with the options that are not its own defaults."""
    if not isinstance(value, ComponentSpec):
        return str(value)
    parameters = inspect.signature(value.cls).parameters
    own = [
        f"{name}: {written(option)}"
        for name, option in value.options.items()
        if name not in parameters or option != parameters[name].default
    ]
    return f"{value.name} ({', '.join(own)})" if own else value.name


@attrs.frozen
class Row:
    """The figures of a recipe over its seeds."""

    recipe: Recipe
    figures: Sequence[Mapping[str, float]]

    def mean(self, name: str) -> float:
        return statistics.fmean(one[name] for one in self.figures)

    def spread(self, name: str) -> float | None:
        values = [one[name] for one in self.figures]
        return statistics.stdev(values) if len(values) > 1 else None

    def shown(self, name: str, digits: int) -> str:
        spread = self.spread(name)
        return f"{self.mean(name):.{digits}f}" + (
            "" if spread is None else f" ± {spread:.{digits}f}"
        )


def rows_of(folders: Iterable[Path]) -> list[Row]:
    """A row for each recipe, by data, process, denoiser, weighting and operations."""
    found: dict[Recipe, list[Mapping[str, float]]] = {}
    for folder in folders:
        if not (folder / "results.json").exists():
            print(f"{folder} has no results yet", file=sys.stderr)
            continue
        results = json.loads((folder / "results.json").read_text("utf-8"))
        for point in results["points"]:
            if point["status"] == "finished":
                recipe = Recipe.of(folder / point["folder"])
                found.setdefault(recipe, []).append(values_of(point["figures"]))
    rows = [Row(recipe, figures) for recipe, figures in found.items()]

    def order(row: Row) -> tuple[Any, ...]:
        recipe = row.recipe
        return *recipe.line[:4], recipe.operations, recipe

    return sorted(rows, key=order)


def values_of(figures: Mapping[str, Any]) -> dict[str, float]:
    return {name: figures[name]["value"] for name in COLUMNS}


def print_table(rows: Sequence[Row]) -> None:
    titles = [title for title, _ in COLUMNS.values()]
    named = ["data", "process", "denoiser", "weighting", "optimiser", "times", "batch"]
    head = [*named, "rate", "steps", "TFLOP", "seeds", *titles]
    print("| " + " | ".join(head) + " |")
    print("| --- " * len(head) + "|")
    for row in rows:
        recipe = row.recipe
        cells = [
            *recipe.line,
            f"{recipe.rate:g}",
            str(recipe.steps),
            f"{recipe.operations / 1e12:.2f}",
            str(len(row.figures)),
            *(row.shown(name, digits) for name, (_, digits) in COLUMNS.items()),
        ]
        print("| " + " | ".join(cells) + " |")


def best_by_line(rows: Sequence[Row]) -> dict[tuple[str, ...], list[Row]]:
    """Of each line and length the rate with the fewest bits, those of most seeds first."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for (line, _), alike in itertools.groupby(
        sorted(rows, key=lambda row: (row.recipe.line, row.recipe.steps)),
        key=lambda row: (row.recipe.line, row.recipe.steps),
    ):
        those = list(alike)
        most = max(len(row.figures) for row in those)
        full = [row for row in those if len(row.figures) == most]
        found.setdefault(line, []).append(min(full, key=lambda row: row.mean("bits_per_dim")))
    return found


def draw(rows: Sequence[Row], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FormatStrFormatter

    figure = Figure(figsize=(10, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2)
    lines = best_by_line(rows)
    differ = [len(set(part)) > 1 for part in zip(*lines, strict=True)]  # the rest need no words
    for panel, name in zip(panels, ("bits_per_dim", "fid_test"), strict=True):
        for line, those in lines.items():
            panel.errorbar(
                [row.recipe.operations / 1e12 for row in those],
                [row.mean(name) for row in those],
                [row.spread(name) or 0 for row in those],
                fmt="o-",
                markersize=4,
                linewidth=1.2,
                capsize=2,
                label=" · ".join(itertools.compress(line, differ)),
            )
        panel.set_xscale("log")
        for which in (panel.xaxis.set_major_formatter, panel.xaxis.set_minor_formatter):
            which(FormatStrFormatter("%g"))
        panel.set_xlabel("operations of the training, TFLOP")
        panel.set_ylabel(COLUMNS[name][0])
        panel.grid(alpha=0.25, which="both")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("comparison", nargs="+", type=Path, help="the folder of a comparison")
    parser.add_argument("--plot", type=Path, help="a PNG of bits/dim and FID against operations")
    options = parser.parse_args()
    rows = rows_of(options.comparison)
    print_table(rows)
    if options.plot:
        draw(rows, options.plot)


if __name__ == "__main__":
    main()

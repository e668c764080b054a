"""How good samples are for so many network calls: samplers, their settings and their grids.

    python docs/benchmarks/sampling_frontier.py RUN [RUN ...] --out frontier.jsonl --plot out.png
    python docs/benchmarks/sampling_frontier.py RUN --out frontier.jsonl \
        --sampler '{name: ancestral, grid: [uniform, tightest], steps: [8, 16, 32]}'

Runs are those of one model, one for each seed. A sampler is a SPEC as in configs, in which a list
stands for each of its values in turn; without ``--sampler`` those are taken that serve the process
(``SAMPLERS``). The grid ``tightest`` is made from each run's own curve, which is measured into
RUN/curve where the run has none.

Each result is a line of the file ``--out`` as soon as it is there, and what is there already is not
measured again: one that was stopped goes on when it is called again. Prints a Markdown table (mean
± standard deviation over runs) and draws FID against calls. Points of one line differ in the number
of steps, or in the first thing that was varied; the dashed line is the least FID for so many calls.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import elbowroom as er
from elbowroom.config.sections import parse_spec
from elbowroom.plugins.evaluation.run import evaluate_run, read_evaluation
from elbowroom.runs.load import load_run

STEPS = [8, 16, 32, 64, 256]
FEW = [8, 16, 32, 64]
SAMPLERS: dict[str, list[dict[str, Any]]] = {  # by a trait of the process
    "absorbing": [
        {"name": "ancestral", "grid": ["uniform", "cosine", "tightest"], "steps": STEPS},
        {"name": "first-hitting", "steps": FEW},
        {"name": "scattered", "grid": ["uniform", "cosine", "tightest"], "steps": [8, 12, 16, 24]},
        {"name": "confidence", "temperature": [1.0, 4.5], "steps": [8, 16, 32]},
        {"name": "top-p", "p": [0.9, 0.98], "steps": [16, 64, 256]},
        {"name": "corrected", "tokens": [1, 4], "steps": [8, 16, 32]},
        {"name": "remask", "sigma": ["rescale", "psi"], "eta": [0.02, 0.1], "steps": [32, 64, 256]},
    ],
    "uniform": [
        {"name": "ancestral", "grid": ["uniform", "cosine", "tightest"], "steps": STEPS},
        {"name": "psi", "eta": [0.02, 0.1], "steps": FEW},
    ],
    "real": [
        {
            "name": ["ancestral", "ddim"],
            "grid": ["uniform", "log-snr", "rho", "tightest"],
            "steps": STEPS,
        },
        {
            "name": "heun",
            "grid": ["uniform", "log-snr", "rho", "tightest"],
            "steps": [4, 8, 16, 32],
        },
        {
            "name": "diffusers",  # DPM-Solver++, its default scheduler
            "options": {"use_karras_sigmas": [False, True]},
            "steps": FEW,
        },
        {
            "name": "multistep",
            "begin": -4.0,
            "end": 4.0,
            "draw": [False, True],
            "steps": [2, 3, 4, 5],
        },
    ],
}
Place = tuple[str, ...]  # ("grid", "name")
METRICS = ("fid", "is", "precision-recall")
COLUMNS = {
    "calls": ("calls", 1),
    "fid_train": ("FID train", 2),
    "fid_test": ("FID test", 2),
    "is": ("IS", 2),
    "precision": ("precision", 3),
    "recall": ("recall", 3),
}


# -- samplers, and what varies in them


@attrs.frozen
class Setting:
    """One sampler: its spec, and the line of the plot it is a point of."""

    spec: Mapping[str, Any]
    line: str


def settings(given: Mapping[str, Any]) -> Iterator[Setting]:
    """Each sampler that a spec with lists stands for."""
    varied = [path for path, values in leaves(given) if isinstance(values, list)]
    budget = ("steps",) if ("steps",) in varied else next(iter(varied), None)
    choices = [values if isinstance(values, list) else [values] for _, values in leaves(given)]
    for chosen in itertools.product(*choices):
        each = list(zip((path for path, _ in leaves(given)), chosen, strict=True))
        yield Setting(nested(each), words([leaf for leaf in each if leaf[0] != budget]))


def leaves(spec: Mapping[str, Any], above: Place = ()) -> list[tuple[Place, Any]]:
    """The values of a nested mapping, each with its path."""
    found: list[tuple[Place, Any]] = []
    for key, value in spec.items():
        path = (*above, key)
        found += leaves(value, path) if isinstance(value, Mapping) else [(path, value)]
    return found


def nested(found: Sequence[tuple[Place, Any]]) -> dict[str, Any]:
    """The nested mapping that has these leaves."""
    spec: dict[str, Any] = {}
    for path, value in found:
        inside = spec
        for key in path[:-1]:
            inside = inside.setdefault(key, {})
        inside[path[-1]] = value
    return spec


def words(found: Sequence[tuple[Place, Any]]) -> str:
    """``ancestral, grid: cosine``."""
    return ", ".join(
        str(value) if path == ("name",) else f"{' '.join(path)}: {value}" for path, value in found
    )


# -- runs


@attrs.frozen
class Run:
    """A finished run."""

    path: str  # as it was given
    step: int
    process: str
    samplers: list[dict[str, Any]]

    @classmethod
    def of(cls, path: str, checkpoint: str) -> Run:
        """With the samplers that serve its process."""
        loaded = load_run(path, (), checkpoint)
        process = loaded.model.process
        serving = [those for trait, those in SAMPLERS.items() if trait in process.traits]
        name = type(process).__name__
        return cls(path, loaded.checkpoint.step, name, [one for those in serving for one in those])

    def curve(self, checkpoint: str) -> str:
        """The file of its curve, measured now if there is none."""
        for folder in (Path(self.path) / "curve", Path(self.path) / "evaluation"):
            record = read_evaluation(folder) or {}
            if record.get("step") == self.step and "curve" in record.get("details", {}):
                return str(folder / "figures.json")
        say(f"{self.path}: measuring its curve")
        protocol = er.EvaluationProtocol(metrics=("curve",), checkpoint=checkpoint)
        found = evaluate_run(self.path, (), protocol, out=Path(self.path) / "curve")
        return str(found.folder / "figures.json")

    def sampler(self, spec: Mapping[str, Any], checkpoint: str) -> dict[str, Any]:
        """The spec with this run's curve, where its grid is made from one."""
        grid = spec.get("grid")
        named = {"name": grid} if isinstance(grid, str) else grid
        if named is None or named.get("name") != "tightest" or "curve" in named:
            return dict(spec)
        return {**spec, "grid": {**named, "curve": self.curve(checkpoint)}}


# -- results, kept in a file


@attrs.frozen
class Results:
    """Rows by what they are of."""

    path: Path
    rows: dict[str, dict[str, Any]] = attrs.Factory(dict)

    @classmethod
    def read(cls, path: Path) -> Results:
        """What is there already; a last line that was cut off is forgotten."""
        results = cls(path)
        text = path.read_text("utf-8") if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            path.write_text(whole, "utf-8")
        for line in whole.splitlines():
            row = json.loads(line)
            results.rows[key(row["of"])] = row
        return results

    def find(self, of: Mapping[str, Any]) -> dict[str, Any] | None:
        """The row of this, if it is there and no metric failed in it."""
        row = self.rows.get(key(of))
        return row if row and not row["failed"] else None

    def add(self, row: dict[str, Any]) -> None:
        """Keep a row."""
        self.rows[key(row["of"])] = row
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def key(of: Mapping[str, Any]) -> str:
    return json.dumps(of, sort_keys=True)


def measure(run: Run, of: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """One row: the measurements of a run's samples by one sampler."""
    began = time.perf_counter()
    sampler = run.sampler(of["sampler"], options.checkpoint)
    model = er.load(run.path, {"sampler": sampler}, checkpoint=options.checkpoint)
    found = er.evaluate(
        model,
        metrics=tuple(of["metrics"]),
        features=of["features"],
        samples=of["samples"],
        seed=of["seed"],
        batch_size=options.batch_size,
    )
    return {
        "of": of,
        "calls": found.calls_mean,
        "figures": {name: one.value for name, one in found.measurements.items()},
        "floors": {name: one.floor for name, one in found.measurements.items()},
        "failed": dict(found.failed),
        "seconds": round(time.perf_counter() - began, 2),
    }


def of(run: Run, setting: Setting, options: argparse.Namespace) -> dict[str, Any]:
    """What a row is of."""
    return {
        "run": run.path,
        "step": run.step,
        "sampler": setting.spec,
        "samples": options.samples,
        "seed": options.seed,
        "metrics": options.metric or METRICS,
        "features": options.features,
    }


def fill(runs: Sequence[Run], asked: Sequence[Setting], results: Results, options: Any) -> None:
    """Measure what is missing, sampler by sampler."""
    began = time.perf_counter()
    todo = [(run, one) for one in asked for run in runs if not results.find(of(run, one, options))]
    say(f"{len(todo)} of {len(asked) * len(runs)} to be measured, {options.samples} samples each")
    for k, (run, one) in enumerate(todo):
        head = f"[{k + 1}/{len(todo)}, {time.perf_counter() - began:.0f} s] {run.path}:"
        name = words(leaves(one.spec))
        try:
            row = measure(run, of(run, one, options), options)
        except er.ElbowroomError as error:
            say(f"{head} {name}: left out: {error}")
            continue
        results.add(row)
        values = {"calls": row["calls"], **row["figures"]}
        told = [f"{t} {values[c]:.{d}f}" for c, (t, d) in COLUMNS.items() if c in values]
        told += [f"{metric} failed: {why}" for metric, why in row["failed"].items()]
        say(f"{head} {name}: {', '.join(told)}, {row['seconds']:.1f} s")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# -- the table and the picture


@attrs.frozen
class Point:
    """A sampler's mean and standard deviation over runs, by column."""

    setting: Setting
    mean: Mapping[str, float]
    sd: Mapping[str, float | None]
    runs: int

    @classmethod
    def of(cls, setting: Setting, rows: Sequence[Mapping[str, Any]]) -> Point:
        """Of the rows of one setting."""
        each = [{"calls": row["calls"], **row["figures"]} for row in rows]
        columns = set.intersection(*(set(one) for one in each))
        values = {name: [one[name] for one in each] for name in columns}
        spread = {n: statistics.stdev(v) if len(v) > 1 else None for n, v in values.items()}
        return cls(setting, {n: statistics.fmean(v) for n, v in values.items()}, spread, len(rows))

    def shown(self, name: str, digits: int) -> str:
        """A cell of the table."""
        if name not in self.mean:
            return ""
        sd = self.sd[name]
        return f"{self.mean[name]:.{digits}f}" + ("" if sd is None else f" ± {sd:.{digits}f}")


def print_table(points: Sequence[Point], floors: Mapping[str, float | None]) -> None:
    columns = {n: c for n, c in COLUMNS.items() if any(n in point.mean for point in points)}
    print("| sampler | runs | " + " | ".join(title for title, _ in columns.values()) + " |")
    print("| --- " * (2 + len(columns)) + "|")
    for point in points:
        cells = [point.shown(name, digits) for name, (_, digits) in columns.items()]
        print(f"| {words(leaves(point.setting.spec))} | {point.runs} | " + " | ".join(cells) + " |")
    real = {n: floors.get(n) for n in columns}
    cells = ["" if v is None else f"{v:.{columns[n][1]}f}" for n, v in real.items()]
    print("| *real data* | | " + " | ".join(cells) + " |")


def least(points: Sequence[Point], figure: str) -> list[Point]:
    """The points than which no other is as good for fewer calls: the frontier."""
    found: list[Point] = []
    for point in sorted(points, key=lambda one: (one.mean["calls"], one.mean[figure])):
        if not found or point.mean[figure] < found[-1].mean[figure]:
            found.append(point)
    return found


def draw(points: Sequence[Point], figure: str, floor: float | None, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FormatStrFormatter

    canvas = Figure(figsize=(9.5, 5), layout="constrained")
    FigureCanvasAgg(canvas)
    panel = canvas.subplots()
    colours: dict[str, str] = {}
    seen: dict[str, int] = {}  # lines of a sampler so far: each has its own marker
    for line in dict.fromkeys(point.setting.line for point in points):
        on_it = sorted(
            (point for point in points if point.setting.line == line),
            key=lambda point: point.mean["calls"],
        )
        name = str(on_it[0].setting.spec["name"])
        colour = colours.setdefault(name, f"C{len(colours)}")
        panel.errorbar(
            [point.mean["calls"] for point in on_it],
            [point.mean[figure] for point in on_it],
            [point.sd[figure] or 0 for point in on_it],
            fmt="osD^vPX*"[seen.setdefault(name, 0) % 8] + "-",
            markersize=4,
            linewidth=1.1,
            capsize=2,
            color=colour,
            alpha=0.85,
            label=line,
        )
        seen[name] += 1
    frontier = least(points, figure)
    panel.step(
        [point.mean["calls"] for point in frontier],
        [point.mean[figure] for point in frontier],
        where="post",
        color="black",
        linewidth=0.9,
        linestyle="--",
        label="least for so many calls",
    )
    if floor is not None:
        panel.axhline(floor, color="grey", linewidth=0.8, linestyle=":", label="real data")
    panel.set_xscale("log")
    panel.set_yscale("log")
    low, high = panel.get_xlim()
    panel.set_xticks([2**k for k in range(12) if low <= 2**k <= high])
    low, high = panel.get_ylim()
    round_ones = [digit * 10**k for k in range(-2, 4) for digit in (1, 1.5, 2, 3, 4, 5, 7)]
    panel.set_yticks([one for one in round_ones if low <= one <= high])
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_formatter(FormatStrFormatter("%g"))
    panel.minorticks_off()
    panel.set_xlabel("network calls a sample")
    panel.set_ylabel(COLUMNS.get(figure, (figure, 0))[0])
    panel.grid(alpha=0.25)
    panel.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    canvas.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", nargs="+", help="a run's folder, one for each seed")
    parser.add_argument("--out", type=Path, required=True, help="the file of results, JSON lines")
    parser.add_argument("--plot", type=Path, help="a PNG of FID against calls")
    parser.add_argument("--figure", default="fid_test", help="what is drawn")
    parser.add_argument("--sampler", action="append", metavar="SPEC", help="lists are varied")
    parser.add_argument("--metric", action="append", help=f"default: {', '.join(METRICS)}")
    parser.add_argument("--features", help="the metrics' feature network")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the samples")
    parser.add_argument("--checkpoint", default="best", help="best, last or a step")
    parser.add_argument("--batch-size", type=int, default=250)
    parser.add_argument("--measured", action="store_true", help="show what is there, measure none")
    options = parser.parse_args()
    runs = [Run.of(path, options.checkpoint) for path in options.run]
    if len({run.process for run in runs}) > 1:
        parser.error("runs of one process at a time: their mean would be of different models")
    named = [parse_spec(given) for given in options.sampler or ()]
    specs = [{"name": one} if isinstance(one, str) else one for one in named] or runs[0].samplers
    asked = [setting for spec in specs for setting in settings(spec)]
    results = Results.read(options.out)
    if not options.measured:
        fill(runs, asked, results, options)
    points, floors = [], {}
    for one in asked:
        found = [results.find(of(run, one, options)) for run in runs]
        rows = [row for row in found if row]
        if rows:
            points.append(Point.of(one, rows))
            floors = rows[0]["floors"]
    print_table(points, floors)
    drawn = [point for point in points if options.figure in point.mean]
    if options.plot and drawn:
        draw(drawn, options.figure, floors.get(options.figure), options.plot)


if __name__ == "__main__":
    main()

"""``elbowroom compare``: the same benchmark for every point of a grid."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from elbowroom import python_form
from elbowroom.cli import JSON, Device, console, echo, help_group, print_json, table
from elbowroom.plugins.console.display import progress_bars
from elbowroom.plugins.console.remaining_time import RemainingTime, duration
from elbowroom.plugins.evaluation.options import Features, Metrics, Reference, Samples, SampleSeeds

if TYPE_CHECKING:
    from .point import Point
    from .results import Budgets, Results, Summary
    from .tables import Column

Config = Annotated[str, typer.Argument(metavar="CONFIG", help="A YAML file or a preset's name.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Changes to every point, e.g. train.steps=300."),
]
Vary = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=A,B,...",
        help="A config key and its values. Repeat for a grid.",
    ),
]

FAILED = 1
INTERRUPTED = 75  # as a run that saved itself: call again and it goes on


@python_form("elbowroom.plugins.compare.run:compare")
@help_group("Start here", 4)
def compare(
    config: Config,
    overrides: Overrides = None,
    vary: Vary = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(metavar="'KEY=A ...'", help="A combination to leave out. May be repeated."),
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Training seeds per point.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The output folder. Default: comparisons/CONFIG."),
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Points to run in parallel.")] = 1,
    ranks: Annotated[
        int, typer.Option(metavar="N", min=1, help="Processes per point, started by torchrun.")
    ] = 1,
    metric: Metrics = None,
    features: Features = None,
    reference: Reference = None,
    samples: Samples = 1000,
    sample_seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="The first seed of samples and noise.")
    ] = 0,
    sample_seeds: SampleSeeds = 1,
    checkpoint: Annotated[
        str, typer.Option(metavar="WHICH", help="last, best or a step number.")
    ] = "last",
    device: Device = None,
    precision: Annotated[
        str,
        typer.Option(metavar="DTYPE", help="Precision of evaluation: float32 or bfloat16."),
    ] = "float32",
    launcher: Annotated[
        str, typer.Option(metavar="SPEC", help="Where points run: local, ray or submitit.")
    ] = "local",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the commands of each point; run nothing.")
    ] = False,
    json: JSON = False,
) -> None:
    """Train and evaluate a grid of configs; write a table and an HTML report.

    Finished points are not run again: after an interruption, run the same command again.

    Example: elbowroom compare digits --vary process=gaussian,masked --vary weighting=elbo,simple
    """
    from elbowroom.config import parse_spec
    from elbowroom.plugins.evaluation.protocol import EvaluationProtocol
    from elbowroom.runs import check_device

    from .axes import Axis, parse_skip
    from .comparison import Comparison, refuse_broken
    from .run import run_points

    protocol = EvaluationProtocol(
        metrics=tuple(metric or ()),
        features=features,
        reference=reference,
        samples=samples,
        seed=sample_seed,
        sample_seeds=sample_seeds,
        checkpoint=checkpoint,
        precision=precision,  # type: ignore[arg-type]  # checked there
    )
    check_device(device)
    comparison = Comparison(
        config,
        out or Path("comparisons") / Path(config).stem,
        tuple(overrides or ()),
        tuple(Axis.parse(text) for text in vary or ()),
        tuple(parse_skip(text) for text in skip or ()),
        seeds,
        protocol,
        device,
        ranks,
    )
    points = comparison.points()
    if dry_run:
        _print_commands(points, as_json=json)
    refuse_broken(points)
    if dry_run:
        return
    with watching(points) as watch:
        found = run_points(comparison, points, parse_spec(launcher), jobs, watch)
    if json:
        paths = {name: str(path) for name, path in found.paths.items()}
        print_json({"paths": paths, **found.results.record()})
    else:
        print_results(found.results)
        for path in found.paths.values():
            console().print(f"written: {path}", markup=False)
    statuses = {point.status for point in points}
    if statuses & {"interrupted", "waiting"}:
        console(stderr=True).print("interrupted: the same command resumes")
        raise typer.Exit(INTERRUPTED)
    if "failed" in statuses or any(p.evaluated and p.evaluated.failed for p in points):
        raise typer.Exit(FAILED)


def _print_commands(points: Sequence[Point], *, as_json: bool) -> None:
    commands = {point.name: point.commands for point in points if point.config is not None}
    broken = {point.name: point.reason for point in points if point.config is None}
    if as_json:
        print_json({"commands": commands, "problems": broken})
        return
    for lines in commands.values():
        echo(" && \\\n  ".join(lines))
    for name, problem in broken.items():
        echo(f"# {name} cannot be run: {problem}".replace("\n", "\n# "))


# -- progress


@contextmanager
def watching(points: Sequence[Point]) -> Iterator[Callable[[Sequence[Point]], None]]:
    """A bar for each running point on a terminal, a line for each event elsewhere."""
    with progress_bars() as bars:
        whole = bars.add_task("points", total=len(points))
        tasks: dict[str, Any] = {}
        lines = _Lines(len(points), bars.console)

        def watch(points: Sequence[Point]) -> None:
            bars.update(whole, completed=sum(point.status in _OVER for point in points))
            for point in points:
                if point.status == "running":
                    if point.name not in tasks:
                        tasks[point.name] = bars.add_task(point.title, total=None)
                    bars.update(
                        tasks[point.name],
                        description=f"{point.title}: {point.task}",
                        completed=point.done,
                        total=point.total or None,
                    )
                elif point.name in tasks:
                    bars.remove_task(tasks.pop(point.name))
            lines.update(points)

        yield watch


_OVER = ("finished", "failed", "interrupted")
_QUIET = 10.0  # seconds between lines about the same point
_SILENCE = 30.0  # seconds after which an unchanged state is printed again


class _Lines:
    """Prints changes of points, a line each; next to progress bars only those that ended."""

    def __init__(self, count: int, err: Any) -> None:
        self._err = err
        self._before: dict[str, tuple[Any, ...]] = {}  # state of each point
        self._over: int | None = None
        self._printed: dict[str, float] = {}
        self._began = time.monotonic()
        self._remaining: dict[tuple[str, str], RemainingTime] = {}  # of each point and task
        self._all = RemainingTime()
        self._all.left(0, count)

    def update(self, points: Sequence[Point]) -> None:
        """Print what changed since the last call."""
        for point in points:
            before = self._before.get(point.name)
            state = (point.status, point.reason, point.task, point.done, point.total)
            self._before[point.name] = state
            left = self._left(point)
            running = point.status == "running"
            since = time.monotonic() - self._printed.get(point.name, -math.inf)
            if point.status == "waiting" or (
                before == state and not (running and since > _SILENCE)
            ):
                continue
            if running:
                new_training = (before is None or before[2] != point.task) and (
                    point.task == "training"
                )
                if self._err.is_terminal or not (since > _QUIET or new_training):
                    continue
            self._printed[point.name] = time.monotonic()
            self._err.print(self._line(point, first=before is None) + left, markup=False)
        self._print_remaining(points)

    def _left(self, point: Point) -> str:
        """Remaining time of the current task."""
        if point.status != "running":
            return ""
        remaining = self._remaining.setdefault((point.name, point.task), RemainingTime())
        left = remaining.left(point.done, point.total)
        return "" if left is None else f", {duration(left)} to go"

    def _print_remaining(self, points: Sequence[Point]) -> None:
        """Print the remaining time of all points whenever another one ended."""
        over = sum(point.status in _OVER for point in points)
        if over == self._over:
            return
        first, self._over = self._over is None, over
        left = self._all.left(over, len(points))
        if not first and left is not None:
            self._err.print(
                f"{over} of {len(points)} points done, {duration(left)} to go", markup=False
            )

    def _line(self, point: Point, *, first: bool) -> str:
        clock = f"{time.monotonic() - self._began:6.0f} s  {point.title}: "
        if point.status == "running":
            return f"{clock}{point.task} {point.done}/{point.total}"
        if point.status == "finished" and not point.reason:
            return clock + ("finished already" if first else "finished")
        return f"{clock}{point.status}{': ' if point.reason else ''}{point.reason}"


# -- results


def print_results(results: Results) -> None:
    """Print the table of models, what failed, and the budgets."""
    from rich.text import Text

    from .tables import legend

    out = console()
    out.print(_measurements_table(results))
    out.print(Text(legend(results), style="dim"))
    for point in results.points:
        if point.status != "finished":
            style = "red" if point.status == "failed" else "yellow"
            words = f"{point.status}: {point.reason}" if point.reason else point.status
            out.print(Text.assemble((f"{point.title}: ", "bold"), (words, style)))
        for name, why in (point.evaluated.failed if point.evaluated else {}).items():
            out.print(Text.assemble((f"{point.title}: ", "bold"), (f"{name} failed: {why}", "red")))
    out.print(_budget_words(results.budgets))


def _measurements_table(results: Results) -> Any:
    from rich.text import Text

    from .tables import columns, reference_rows

    shown = columns(results, narrow=True)
    keys = list(results.vary) or ["point"]
    heads = [">" + column.title.replace(", ", "\n") for column in shown]
    listing = table(results.title, *keys, "bound?", *heads, ">seeds")
    for k, model in enumerate(results.models):
        cells = [
            _cell(column, model.measurements.get(column.name), bold=column.best == k)
            for column in shown
        ]
        is_bound = None if model.weighting is None else model.weighting.is_bound
        bound = {True: "yes", False: "no", None: "?"}[is_bound]
        count = f"{len(model.finished)}/{len(model.points)}"
        values = list(model.values.values()) or [model.label]
        listing.add_row(*(Text(value) for value in values), bound, *cells, count)
    listing.add_section()
    for title, row in reference_rows(results, shown):
        listing.add_row(title, *[""] * (len(keys) - 1), "", *row, "", style="dim")
    return listing


def _cell(column: Column, one: Summary | None, *, bold: bool) -> Any:
    from rich.text import Text

    value = column.value(one)
    if one is None or value is None:
        return Text("-", style="dim")
    error = column.error(one)
    tail = "" if error is None else f"\u00a0±\u00a0{error}"
    mark = "\u00a0†" if one.vacuous else ""
    return Text.assemble((value, "bold" if bold else ""), (tail, "dim"), (mark, "red"))


def _budget_words(budgets: Budgets) -> Any:
    from rich.text import Text

    same = ", ".join(f"{key} {value}" for key, value in budgets.same.items())
    lines: list[Any] = [("same for all: ", "bold"), same + "\n"]
    for key, values in budgets.different.items():
        lines += [(f"{key} differ: ", "bold"), _by_value(values) + "\n"]
    return Text.assemble(*lines)


def _by_value(values: Mapping[str, Any]) -> str:
    """Each value with the models that have it; many numbers as a range."""
    having: dict[Any, list[str]] = {}
    for label, value in values.items():
        if value is not None:
            having.setdefault(value, []).append(label)
    numbers = [value for value in having if isinstance(value, int | float)]
    if len(having) > 4 and len(numbers) == len(having):
        return f"{min(numbers):,} to {max(numbers):,}"
    return "; ".join(
        f"{f'{value:,}' if isinstance(value, int | float) else value} ({', '.join(labels)})"
        for value, labels in having.items()
    )

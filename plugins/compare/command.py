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
    from .comparison import Cell, Comparison
    from .decimals import Column
    from .running import State

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
    paper: Annotated[
        bool, typer.Option("--paper", help="Show the paper's numbers in the report.")
    ] = False,
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
    from .run import run_cells

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
    cells = comparison.cells()
    if dry_run:
        _print_commands(comparison, cells, as_json=json)
    refuse_broken(cells)
    if dry_run:
        return
    with watching(cells) as watch:
        found = run_cells(comparison, cells, parse_spec(launcher), jobs, paper=paper, watch=watch)
    results = found.results
    if json:
        print_json({"paths": {k: str(path) for k, path in found.paths.items()}, **results})
    else:
        print_results(results)
        for path in found.paths.values():
            console().print(f"written: {path}", markup=False)
    said = {state.status for state in found.states.values()}
    if said & {"interrupted", "waiting"}:
        console(stderr=True).print("interrupted: the same command goes on from here")
        raise typer.Exit(INTERRUPTED)
    if "failed" in said or any(point["failed"] for point in results["points"]):
        raise typer.Exit(FAILED)


def _print_commands(comparison: Comparison, cells: Sequence[Cell], *, as_json: bool) -> None:
    listed = {cell.name: comparison.commands(cell) for cell in cells if cell.point is not None}
    broken = {cell.name: cell.problem for cell in cells if cell.point is None}
    if as_json:
        print_json({"commands": listed, "problems": broken})
        return
    for commands in listed.values():
        echo(" && \\\n  ".join(commands))
    for name, problem in broken.items():
        echo(f"# {name} cannot be run: {problem}".replace("\n", "\n# "))


# -- while it runs


@contextmanager
def watching(
    cells: Sequence[Cell],
) -> Iterator[Callable[[Mapping[str, State]], None]]:
    """A bar for each running point on a terminal, a line for each event elsewhere."""
    labels = {cell.name: f"{cell.label} · seed {cell.seed}" for cell in cells}
    with progress_bars() as bars:
        whole = bars.add_task("points", total=len(cells))
        tasks: dict[str, Any] = {}
        lines = _Lines(labels, bars.console)

        def watch(states: Mapping[str, State]) -> None:
            over = [name for name, state in states.items() if state.status in _OVER]
            bars.update(whole, completed=len(over))
            for name, state in states.items():
                if state.status == "running":
                    if name not in tasks:
                        tasks[name] = bars.add_task(labels[name], total=None)
                    words = f"{labels[name]}: {state.doing}"
                    bars.update(
                        tasks[name], description=words, completed=state.done, total=state.of or None
                    )
                elif name in tasks:
                    bars.remove_task(tasks.pop(name))
            lines.tell(states)

        yield watch


_OVER = ("finished", "failed", "interrupted")
_QUIET = 10.0  # seconds between lines about the same point
_SILENCE = 30.0  # after so many it is said again where it stands


class _Lines:
    """Says what changed, a line each; where bars are drawn only what ended."""

    def __init__(self, labels: Mapping[str, str], err: Any) -> None:
        self._labels, self._err = labels, err
        self._before: dict[str, State] = {}
        self._over: int | None = None
        self._told: dict[str, float] = dict.fromkeys(labels, -math.inf)
        self._began = time.monotonic()
        self._paces: dict[
            tuple[str, str], RemainingTime
        ] = {}  # of each point at each thing it does
        self._points = RemainingTime()
        self._points.left(0, len(labels))

    def tell(self, states: Mapping[str, State]) -> None:
        for name, state in states.items():
            before = self._before.get(name)
            self._before[name] = state
            left = self._left(name, state)
            if state.status == "waiting" or (before == state and not self._silent(name, state)):
                continue
            if state.status == "running":
                changed = before is None or before.doing != state.doing
                late = time.monotonic() - self._told[name] > _QUIET
                if self._err.is_terminal or not (late or (changed and state.doing == "training")):
                    continue
            self._told[name] = time.monotonic()
            self._err.print(self._line(name, state, before) + left, markup=False)
        self._tell_of_the_rest(states)

    def _silent(self, name: str, state: State) -> bool:
        """Has a point that runs said nothing for long?"""
        return state.status == "running" and time.monotonic() - self._told[name] > _SILENCE

    def _left(self, name: str, state: State) -> str:
        """How long a point will be at what it does."""
        if state.status != "running":
            return ""
        pace = self._paces.setdefault((name, state.doing), RemainingTime())
        left = pace.left(state.done, state.of)
        return "" if left is None else f", {duration(left)} to go"

    def _tell_of_the_rest(self, states: Mapping[str, State]) -> None:
        """When another point is through, how long the others will take at this pace."""
        over = sum(state.status in _OVER for state in states.values())
        if over == self._over:
            return
        fresh, self._over = self._over is not None, over
        left = self._points.left(over, len(states))
        if fresh and left is not None:
            words = f"{over} of {len(states)} points are through, {duration(left)} to go"
            self._err.print(words, markup=False)

    def _line(self, name: str, state: State, before: State | None) -> str:
        clock = f"{time.monotonic() - self._began:6.0f} s  {self._labels[name]}: "
        if state.status == "running":
            return f"{clock}{state.doing} {state.done}/{state.of}"
        if state.status == "finished" and not state.reason:
            return clock + ("finished already" if before is None else "finished")
        return f"{clock}{state.status}{': ' if state.reason else ''}{state.reason}"


# -- what it found


def print_results(results: Mapping[str, Any]) -> None:
    """The table of groups, what failed, where budgets differ, and the paper's rows if asked for."""
    from rich.text import Text

    from .presentation import legend

    out = console()
    out.print(_measurements_table(results))
    out.print(Text(legend(results), style="dim"))
    for point in results["points"]:
        if point["status"] != "finished":
            style = "red" if point["status"] == "failed" else "yellow"
            words = f"{point['status']}: {point['reason']}" if point["reason"] else point["status"]
            out.print(
                Text.assemble(
                    (f"{point['label']} · seed {point['seed']}: ", "bold"), (words, style)
                )
            )
        for name, why in point["failed"].items():
            where = f"{point['label']} · seed {point['seed']}: "
            out.print(Text.assemble((where, "bold"), (f"{name} failed: {why}", "red")))
    out.print(_budget_words(results["budgets"]))
    if results["paper"]:
        out.print(_paper_table(results))


def _measurements_table(results: Mapping[str, Any]) -> Any:
    from rich.text import Text

    from .differences import leads
    from .presentation import (
        best_of,
        column_of,
        floor_of,
        heading_of,
        knows_nothing_of,
        knows_nothing_words,
        shown_measurements,
    )

    names = shown_measurements(results, narrow=True)
    keys = list(results["vary"]) or ["point"]
    heads = [">" + heading_of(results, name).replace(", ", "\n") for name in names]
    listing = table(results["title"], *keys, "bound?", *heads, ">seeds")
    best = {name: k for name, k in best_of(results).items() if leads(results, name, k)}
    columns = {name: column_of(results, name) for name in names}
    for k, group in enumerate(results["groups"]):
        cells = [
            _cell(column, group["figures"].get(name), bold=best.get(name) == k)
            for name, column in columns.items()
        ]
        weighting = group["weighting"] or {}
        bound = {True: "yes", False: "no", None: "?"}[weighting.get("is_bound")]
        count = f"{group['finished']}/{len(group['points'])}"
        values = list(group["values"].values()) or [group["label"]]
        listing.add_row(*(Text(value) for value in values), bound, *cells, count)
    listing.add_section()
    for title, of in (("real data", floor_of), (knows_nothing_words(results), knows_nothing_of)):
        said = [
            "" if (value := of(results, name)) is None else column.plain(value)
            for name, column in columns.items()
        ]
        if any(said):
            padding = [""] * (len(keys) - 1)
            listing.add_row(title, *padding, "", *said, "", style="dim")
    return listing


def _cell(column: Column, measurement: Mapping[str, Any] | None, *, bold: bool) -> Any:
    from rich.text import Text

    value = column.value(measurement)
    if measurement is None or value is None:
        return Text("-", style="dim")
    spread = column.spread(measurement)
    tail = "" if spread is None else f"\u00a0±\u00a0{spread}"
    mark = "\u00a0†" if measurement.get("vacuous") else ""
    return Text.assemble((value, "bold" if bold else ""), (tail, "dim"), (mark, "red"))


def _budget_words(budgets: Mapping[str, Any]) -> Any:
    from rich.text import Text

    same = ", ".join(f"{key} {value}" for key, value in budgets["same"].items())
    lines: list[Any] = [("same for all: ", "bold"), same + "\n"]
    for key, said in budgets["different"].items():
        lines += [(f"{key} differ: ", "bold"), _by_value(said) + "\n"]
    return Text.assemble(*lines)


def _by_value(said: Mapping[str, Any]) -> str:
    """Each value with those that have it; many numbers as a range."""
    having: dict[Any, list[str]] = {}
    for label, value in said.items():
        if value is not None:  # a group of which it is not known
            having.setdefault(value, []).append(label)
    numbers = [value for value in having if isinstance(value, int | float)]
    if len(having) > 4 and len(numbers) == len(having):
        return f"{min(numbers):,} to {max(numbers):,}"
    return "; ".join(
        f"{f'{value:,}' if isinstance(value, int | float) else value} ({', '.join(labels)})"
        for value, labels in having.items()
    )


def _paper_table(results: Mapping[str, Any]) -> Any:
    from rich.text import Text

    from .presentation import paper_columns

    paper, columns = results["paper"], paper_columns(results)
    listing = table(
        f"The paper's figures (quoted: {paper['setting']}) beside ours (measured here)",
        "model",
        "weighting",
        ">FID, quoted",
        ">IS, quoted",
        "ours",
        ">FID, ours",
        ">IS, ours",
    )
    for row in paper["rows"]:
        quoted = row["inception_score"]
        head = [row["model"], row["weighting"] or "", str(row["fid"]), f"{quoted or ''}"]
        if not row["ours"]:
            listing.add_row(*head, "", "", "")
        for one in row["ours"]:
            measurements = [
                _cell(column, one[name], bold=False) for name, column in columns.items()
            ]
            listing.add_row(*head, Text(one["label"]), *measurements)
    return listing

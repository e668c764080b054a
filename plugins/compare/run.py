"""A comparison from beginning to end: run what is left of it, collect, write results and report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import attrs
from elbowroom import EvaluationProtocol, Launcher, check_device, named_component

from .axes import Axis
from .comparison import Cell, Comparison, refuse_broken
from .report import write_report
from .results import collect
from .results_files import write_results
from .running import State, run_comparison


@attrs.frozen(eq=False)
class Compared:
    """What a comparison found, and where it was written."""

    results: Mapping[str, Any]  # the content of results.json
    paths: Mapping[str, Path]  # "results", "table" and "report"
    states: Mapping[str, State]  # how each point ended


def compare(
    config: str | PathLike[str],
    overrides: Sequence[str] = (),
    *,
    vary: Mapping[str, Sequence[Any]],
    seeds: int = 1,
    out: str | PathLike[str] | None = None,
    jobs: int = 1,
    launcher: Any = "local",
    skip: Sequence[Mapping[str, str]] = (),
    device: str | None = None,
    paper: bool = False,
    **protocol: Any,
) -> Compared:
    """Train and judge every combination of the values in ``vary``, each with ``seeds`` seeds.

        er.compare("digits", vary={"process": ["gaussian", "masked"]}, seeds=3, jobs=2)

    Points that are finished in ``out`` (comparisons/CONFIG) are not run again. Other keywords say
    how models are judged, as for :func:`elbowroom.evaluate`.
    """
    check_device(device)
    comparison = Comparison(
        str(config),
        Path(out) if out is not None else Path("comparisons") / Path(config).stem,
        tuple(overrides),
        tuple(Axis.of(key, values) for key, values in vary.items()),
        tuple(skip),
        seeds,
        EvaluationProtocol(**{"checkpoint": "last", **protocol}),
        device,
    )
    cells = comparison.cells()
    refuse_broken(cells)
    return run_cells(comparison, cells, launcher, jobs, paper=paper)


def run_cells(
    comparison: Comparison,
    cells: Sequence[Cell],
    launcher: Any,
    jobs: int,
    *,
    paper: bool = False,
    watch: Callable[[Mapping[str, State]], None] = lambda _: None,
) -> Compared:
    """Run what is left of a comparison, and write down what it found."""
    made: Launcher = named_component("launcher", launcher, path="launcher").build()
    states = run_comparison(comparison, cells, made, jobs, watch)
    results = collect(comparison, cells, states, paper=paper)
    paths = write_results(results, comparison.out)
    paths["report"] = write_report(results, comparison.out)
    return Compared(results, paths, states)

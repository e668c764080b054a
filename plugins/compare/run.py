"""A comparison from beginning to end: run what is left of it, collect, write results and report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import attrs
from elbowroom import (
    Config,
    ConfigError,
    Diffusion,
    dump_yaml,
    load_config,
    named_component,
    parts_of,
)
from elbowroom.config import show
from elbowroom.files import write_atomically
from elbowroom.plugins.evaluation.protocol import EvaluationProtocol
from elbowroom.plugins.launchers.launcher import Launcher
from elbowroom.runs import check_device, check_importable

from .axes import Axis
from .comparison import Cell, Comparison, refuse_broken
from .frontier_plots import write_frontiers
from .real_data import show_data
from .report import write_report
from .results import collect
from .results_files import write_results
from .running import State, run_comparison

COMPARISONS = Path("comparisons")


@attrs.frozen(eq=False)
class Compared:
    """What a comparison found, and where it was written."""

    results: Mapping[str, Any]  # the content of results.json
    paths: Mapping[str, Path]  # "json", "csv", "tex", "md", "report", and plots by their names
    states: Mapping[str, State]  # how each point ended


def compare(
    config: str | PathLike[str] | Mapping[str, Any] | Config | Diffusion,
    overrides: Sequence[str] = (),
    *,
    vary: Mapping[str, Sequence[Any]],
    seeds: int = 1,
    out: str | PathLike[str] | None = None,
    jobs: int = 1,
    launcher: Any = "local",
    skip: Sequence[Mapping[str, str]] = (),
    device: str | None = None,
    ranks: int = 1,
    paper: bool = False,
    **protocol: Any,
) -> Compared:
    """Train and judge every combination of the values in ``vary``, each with ``seeds`` seeds.

    Each point is one process, or ``ranks`` of them under torchrun.

        er.compare("digits", vary={"process": ["gaussian", "masked"]}, seeds=3, jobs=2)

    A model is compared as what it was assembled from: its weights are not used. Its config, or one
    that is no file, is written to ``out``, and what other processes could not find is refused.
    Points that are finished in ``out`` (comparisons/CONFIG) are not run again. Other keywords say
    how models are judged, as for :func:`elbowroom.evaluate`.
    """
    check_device(device)
    if not isinstance(vary, Mapping):
        raise ConfigError(f"vary: got {show(vary)}; allowed: a mapping of keys to lists of values")
    comparison = Comparison(
        *_source(config, out),
        tuple(overrides),
        tuple(Axis.of(key, values) for key, values in vary.items()),
        tuple(skip),
        seeds,
        EvaluationProtocol(**{"checkpoint": "last", **protocol}),
        device,
        ranks,
    )
    cells = comparison.cells()
    refuse_broken(cells)
    return run_cells(comparison, cells, launcher, jobs, paper=paper)


def _source(
    config: str | PathLike[str] | Mapping[str, Any] | Config | Diffusion,
    out: str | PathLike[str] | None,
) -> tuple[str, Path]:
    """Where the config is, and where everything goes."""
    if isinstance(config, str | PathLike):
        return str(config), Path(out) if out is not None else COMPARISONS / Path(config).stem
    if out is None:
        raise ConfigError("compare: a model or mapping has no name: say where results go, out=...")
    told = parts_of(config).config if isinstance(config, Diffusion) else load_config(config)
    check_importable(told)
    file = Path(out) / "config.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, dump_yaml(told).encode())
    return str(file), Path(out)


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
    results["data"] = show_data(cells, comparison.out)
    paths = write_results(results, comparison.out)
    paths |= write_frontiers(results, comparison.out)
    paths["report"] = write_report(results, comparison.out)
    return Compared(results, paths, states)

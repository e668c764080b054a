"""A comparison from beginning to end: run its points, collect, write results and report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from .comparison import Comparison, refuse_broken
from .frontier_plots import write_frontiers
from .point import Point
from .report import write_report
from .results import Results, collect
from .results_files import write_results
from .running import Watch, run_comparison

COMPARISONS = Path("comparisons")


@attrs.frozen(eq=False)
class Compared:
    """The results of a comparison, and its files."""

    results: Results
    paths: Mapping[str, Path]  # "json", "csv", "tex", "md", "report", and plots by their names


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
    **protocol: Any,
) -> Compared:
    """Train and evaluate every combination of the values in ``vary``.

    Args:
        config: A file, a preset's name, a mapping, a config, or a model. Of a model its config is
            used, not its weights.
        overrides: Changes for all points, like ``"train.steps=300"``.
        vary: Config key -> values.
        seeds: Training seeds of each combination.
        out: Folder of the comparison; default ``comparisons/CONFIG``. Finished points in it are
            not run again.
        jobs: Points that run at the same time.
        launcher: Where points run, as a name or a mapping.
        skip: Combinations of values that are left out.
        device: Device of training and evaluation.
        ranks: Processes of each point, started by torchrun.
        **protocol: Options of the evaluation, as for :func:`elbowroom.evaluate`.

    Returns:
        Results and paths of the files.

    Raises:
        ConfigError: A value cannot be used, or worker processes could not import a component.

    Example:
        >>> er.compare("digits", vary={"process": ["gaussian", "masked"]}, seeds=3, jobs=2)
        ... # doctest: +SKIP
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
    points = comparison.points()
    refuse_broken(points)
    return run_points(comparison, points, launcher, jobs)


def _source(
    config: str | PathLike[str] | Mapping[str, Any] | Config | Diffusion,
    out: str | PathLike[str] | None,
) -> tuple[str, Path]:
    """Path or name of the config, and the comparison's folder; other configs are written there."""
    if isinstance(config, str | PathLike):
        return str(config), Path(out) if out is not None else COMPARISONS / Path(config).stem
    if out is None:
        raise ConfigError("compare: a model or mapping has no name. Name a folder: out=...")
    loaded = parts_of(config).config if isinstance(config, Diffusion) else load_config(config)
    check_importable(loaded)
    file = Path(out) / "config.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, dump_yaml(loaded).encode())
    return str(file), Path(out)


def run_points(
    comparison: Comparison,
    points: Sequence[Point],
    launcher: Any,
    jobs: int,
    watch: Watch = lambda _: None,
) -> Compared:
    """Run the unfinished points of a comparison, and write results and report."""
    made: Launcher = named_component("launcher", launcher, path="launcher").build()
    run_comparison(comparison, points, made, jobs, watch)
    results = collect(comparison, points)
    paths = write_results(results) | write_frontiers(results)
    return Compared(results, {**paths, "report": write_report(results)})

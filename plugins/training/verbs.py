"""``elbowroom.train`` and ``elbowroom.resume``: training from Python."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import attrs
from elbowroom import Config, Diffusion, load_config, parts_of
from elbowroom.api import as_dataset, attach_parts, recordable_parts
from elbowroom.config import check_path
from elbowroom.runs import RunFolder, defined_in_script, load_weights

from . import run as run_training
from .loop import InterruptedRun, RunResult


def train(
    model: Diffusion | str | PathLike[str] | Mapping[str, Any] | Config,
    out: str | PathLike[str],
    *,
    device: str | None = None,
    without: Collection[str] = (),
    auto_resume: bool = False,
    **options: Any,
) -> RunResult:
    """Train a model in the new run folder ``out``; afterwards it has the averaged weights.

    ``model`` may also be a config, as for :func:`assemble`. Keywords are options of the config's
    section ``train``; ``without`` names observers that shall not be told (``console``). With
    ``auto_resume`` a run of the same config that has begun there is gone on with.

    A run that a signal interrupts is saved, then :class:`InterruptedRun` is raised (for Ctrl-C a
    ``KeyboardInterrupt``): what follows in a script does not run with an unfinished model.
    """
    check_path("out", out)
    if not isinstance(model, Diffusion):
        config = _changed(load_config(model), options)
        return _unless_interrupted(
            run_training.train(config, out, device=device, without=without, auto_resume=auto_resume)
        )
    config = _changed(parts_of(model).config, options)
    parts = recordable_parts(attrs.evolve(parts_of(model), config=config))
    config = parts.config
    _warn_of_main(config)
    result = run_training.train(
        config, out, built=(parts, model), device=device, without=without, auto_resume=auto_resume
    )
    latest = RunFolder(Path(out)).latest()
    if latest is not None:
        load_weights(model, latest)
    attach_parts(model, parts)
    model.eval()
    return _unless_interrupted(result)


def resume(
    run: str | PathLike[str],
    overrides: Mapping[str, Any] | tuple[str, ...] = (),
    *,
    device: str | None = None,
    without: Collection[str] = (),
    trust: bool = False,
    restart: bool = False,
    config: Config | None = None,
    data: Any = None,
) -> RunResult:
    """Go on with a run; ``overrides`` may lengthen it or change what is logged and kept.

    Code that the run names, and you do not, is executed only with ``trust``; ``restart`` begins a
    run again whose checkpoints are lost. A ``config`` that is given must be the run's own; ``data``
    are what a run was trained on whose data have no name.
    """
    return _unless_interrupted(
        run_training.resume(
            run,
            overrides,
            config=config,
            data=None if data is None else as_dataset(data),
            device=device,
            without=without,
            trust=trust,
            restart=restart,
        )
    )


def _unless_interrupted(result: RunResult) -> RunResult:
    """``result`` of a finished run; of an interrupted one, raise."""
    if result.reason == "finished":
        return result
    error = InterruptedRun(result)
    if result.signal == "SIGINT":
        raise KeyboardInterrupt(str(error))
    raise error


def _warn_of_main(config: Config) -> None:
    """Say what a run will not be good for while there is time to change it."""
    for spec in defined_in_script(config):
        warnings.warn(
            f"{spec.path}: {spec.name.partition(':')[2]} is defined in the script that runs: only "
            "this script can load or resume the run; from a file of its own every command can",
            stacklevel=3,
        )


def _changed(config: Config, options: Mapping[str, Any]) -> Config:
    """With other options of training."""
    return load_config(config, {f"train.{name}": value for name, value in options.items()})

"""``elbowroom.train`` and ``elbowroom.resume``: training from Python."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from os import PathLike
from typing import Any

import attrs
from elbowroom import Config, Diffusion, load_config, parts_of
from elbowroom.api import as_dataset, attach_parts, recordable_parts
from elbowroom.config import check_path
from elbowroom.runs import defined_in_script

from . import run as runs
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
    """Train a model in the new run folder ``out``.

    A model that is passed is trained in place and has the averaged (EMA) weights afterwards. Under
    ``torchrun`` every rank calls this.

    Args:
        model: A model of :func:`assemble` or :func:`load`, or a config: a preset's name, a YAML
            file, a mapping or a :class:`Config`.
        out: The run folder to create.
        device: cpu, cuda, ... Default: the available device.
        without: Names of observers that are not notified, like ``console`` or ``tensorboard``.
        auto_resume: If ``out`` contains a run of the same config, resume it.
        **options: Options of the config's section ``train``, like ``steps=1000``.

    Returns:
        The result: ``folder``, ``step``, ``latest`` and ``best`` checkpoint, last ``scalars``.

    Raises:
        ConfigError: An option or the config is invalid.
        RunError: ``out`` contains another run.
        InterruptedRun: A signal stopped the run after it was saved. Ctrl-C raises
            KeyboardInterrupt instead.

    Example:
        >>> model = er.assemble("digits")
        >>> result = er.train(model, "runs/digits", steps=200)
        >>> result.scalars["bits_per_dim"]
    """
    check_path("out", out)
    how: dict[str, Any] = {"device": device, "without": without, "auto_resume": auto_resume}
    if not isinstance(model, Diffusion):
        return _raise_if_interrupted(
            runs.train(_with_options(load_config(model), options), out, **how)
        )
    config = _with_options(parts_of(model).config, options)
    parts = recordable_parts(attrs.evolve(parts_of(model), config=config))
    _warn_of_script(parts.config)
    result = runs.train(parts.config, out, built=(parts, model), **how)
    attach_parts(model, parts)
    model.eval()
    return _raise_if_interrupted(result)


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
    """Resume a run from its last checkpoint, on any number of ranks.

    Args:
        run: The run folder.
        overrides: Changes of ``train.steps`` and of what is logged and saved, as a mapping or as
            ``("train.steps=2000",)``. Other changes raise an error that lists the differences.
        device: cpu, cuda, ... Default: the available device.
        without: Names of observers that are not notified.
        trust: Execute code that the run's config refers to (``./my.py:Net``).
        restart: Start again from step 0 if the checkpoints are missing or damaged.
        config: The run's config, to verify that it has not changed.
        data: The data, if the run was trained on data without a name in the config.

    Returns:
        The result, as of :func:`train`.

    Raises:
        RunError: The folder contains no run that can be resumed.
        InterruptedRun: As in :func:`train`.

    Example:
        >>> er.resume("runs/digits", {"train.steps": 2000})
    """
    return _raise_if_interrupted(
        runs.resume(
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


def _raise_if_interrupted(result: RunResult) -> RunResult:
    """Return the result of a finished run; raise if it was interrupted."""
    if result.reason == "finished":
        return result
    error = InterruptedRun(result)
    if result.signal == "SIGINT":
        raise KeyboardInterrupt(str(error))
    raise error


def _warn_of_script(config: Config) -> None:
    """Warn of components that only the running script can load."""
    for spec in defined_in_script(config):
        warnings.warn(
            f"{spec.path}: {spec.name.partition(':')[2]} is defined in the script that is running, "
            "so only this script can load or resume the run. Move it to a module.",
            stacklevel=3,
        )


def _with_options(config: Config, options: Mapping[str, Any]) -> Config:
    """The config with changed options of the section ``train``."""
    return load_config(config, {f"train.{name}": value for name, value in options.items()})

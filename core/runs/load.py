"""Loading a run: its model with its weights. No data files are needed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

import attrs
import torch
from torch import nn

from ..config.assembly import Parts, build_model, build_parts
from ..config.sections import Config, load_config
from ..contracts.dataset import DataSpec
from ..contracts.schedule import Schedule
from ..errors import ConfigError, ElbowroomError
from ..objective.diffusion import Diffusion, ends_of
from ..objective.loss import One
from .changes import warn_of_changes
from .checkpoint import (
    Checkpoint,
    CheckpointError,
    best_first,
    checkpoints,
    load_learned_schedule,
    load_weights,
    part_of_average,
    undamaged,
)
from .devices import place
from .folder import RunFolder


@attrs.frozen(eq=False)
class Loaded:
    """A run's model with its weights."""

    model: Diffusion
    parts: Parts  # what it was assembled from; data files are not looked for
    folder: RunFolder
    checkpoint: Checkpoint


def load_run(
    run: str | PathLike[str],
    overrides: Any = (),
    checkpoint: str | int = "best",
    weights: str = "ema",
    device: torch.device | str | None = None,
    *,
    trust: bool = False,
) -> Loaded:
    """The model of a run, in evaluation mode: ``checkpoint`` is "best", "last" or a step.

    "best" is the one with the lowest validation bits/dim, or the last where none was evaluated.
    Of several averages ``train.ema`` among the ``overrides`` chooses one.
    Without a ``device`` it goes to a GPU if there is one.
    Code that a run from elsewhere refers to is executed only with ``trust``.
    """
    there = place(device)
    folder = RunFolder.open(run, trust=trust)
    config, own, known = _configs(folder, overrides)
    weights = _average(config, own) if weights == "ema" else weights
    found = _checkpoint(folder, checkpoint, weights)
    if known:
        warn_of_changes(own, found)
    unchanged = config.data == own.data
    spec = _recorded_spec(found) if unchanged else None  # drawing needs no data on this machine
    parts = of_run(build_parts(config, spec=spec), folder.path)
    model = build_model(parts)
    model.trained_ends = _trained_ends(own, config, found, weights) if overrides else None
    load_weights(model, found, weights)
    return Loaded(model.to(there).eval(), parts, folder, found)


def check_average(run: str | PathLike[str], overrides: Iterable[str], trust: bool = False) -> None:
    """Refuse an average that a run does not keep, before anything is done with others."""
    folder = RunFolder.open(run, trust=trust)
    config = folder.config(overrides)
    _average(config, folder.config(like=config))


def _average(config: Config, own: Config) -> str:
    """The part of a checkpoint with the average that is asked for, of those a run keeps."""
    asked, kept = config.train.ema, own.train
    if asked == kept.ema:
        return "ema"
    if asked in kept.ema_also:
        return part_of_average(asked)
    there = ", ".join(map(str, (kept.ema, *kept.ema_also)))
    raise ConfigError(
        f"train.ema={asked}: the run keeps no such average; choose of {there} "
        "(train.ema_also has a run keep several)"
    )


def _configs(folder: RunFolder, overrides: Any) -> tuple[Config, Config, bool]:
    """The run's config with the overrides, its own, and whether its weighting is known here.

    Neither samples nor bits/dim need the weighting that a network was trained with, so one whose
    package is not installed stands in nobody's way. One that is code in a file is refused or run
    as the user trusts it, never passed over.
    """
    try:
        config = folder.config(overrides)
        return config, folder.config(like=config) if overrides else config, True
    except ConfigError as error:
        if folder.weighting_is_code:
            raise
        try:
            own = folder.config({"weighting": One()})
            config = load_config(own, overrides)
        except ElbowroomError:
            raise error from None
        warnings.warn(f"{error}\nit is not needed here: w = 1 is in its place", stacklevel=3)
        return config, own, False


def of_run(parts: Parts, run: Path) -> Parts:
    """The parts of a run, with its own grid where the sampler's is made from what a run has."""
    sampler = parts.sampler
    if sampler is not None and (grid := sampler.grid.of_run(run)) is not sampler.grid:
        sampler = attrs.evolve(sampler, grid=grid)
    return attrs.evolve(parts, sampler=sampler, run=run)


def _trained_ends(
    own: Config, config: Config, checkpoint: Checkpoint, weights: str
) -> tuple[float, float] | None:
    """Between which levels a run was trained; None where ``config`` has the same schedule."""
    if own.schedule is None or own.schedule == config.schedule:
        return None
    schedule: Schedule = own.schedule.build()
    if isinstance(schedule, nn.Module):
        load_learned_schedule(schedule, checkpoint, weights)
    return ends_of(schedule)


def _recorded_spec(checkpoint: Checkpoint) -> DataSpec | None:
    """The form of the data a run was trained on, if it wrote it down."""
    if checkpoint.state.data is None:
        return None
    try:
        return DataSpec.recorded(checkpoint.state.data)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"checkpoint {checkpoint.path} has no data that can be: {error}"
        ) from None


def _checkpoint(folder: RunFolder, wanted: str | int, part: str) -> Checkpoint:
    found = checkpoints(folder.checkpoints)
    if not found:
        raise ElbowroomError(f"{folder.path} has no checkpoint yet: train it further")
    if wanted in ("best", "last"):
        order = best_first(found) if wanted == "best" else found[::-1]
        if good := next(undamaged(order, part), None):
            return good
        raise ElbowroomError(f"every checkpoint of {folder.path} is damaged")
    for one in found:
        if str(one.step) == str(wanted):
            return one
    steps = ", ".join(str(one.step) for one in found)
    raise ElbowroomError(f"no checkpoint {wanted!r} in {folder.path}: choose best, last or {steps}")

"""Loading a run: its model with its weights. No data files are needed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import attrs
import torch

from ..config.assembly import Parts, build_model, build_parts
from ..config.sections import Config, to_plain
from ..config.spec import ComponentSpec, NotPlainError
from ..contracts.dataset import DataSpec
from ..errors import ConfigError, ElbowroomError
from ..objective.diffusion import Diffusion, log_snr_range
from ..objective.loss import One
from ..registry.trust import trusting
from .checkpoint import (
    Checkpoint,
    CheckpointError,
    best_first,
    checkpoints,
    ema_part,
    load_weights,
    undamaged,
)
from .devices import resolve_device
from .folder import RunFolder


@attrs.frozen(eq=False)
class Loaded:
    """A run's model with its weights."""

    model: Diffusion
    parts: Parts  # without data files
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
    """Load the model of a run, in evaluation mode.

    Args:
        run: The run's folder.
        overrides: Changes to its config; ``train.ema`` chooses one of several averages.
        checkpoint: ``"best"`` (lowest validation bits/dim, or the last if not evaluated),
            ``"last"`` or a step.
        weights: ``"ema"`` or ``"model"``.
        device: Default: a GPU if available.
        trust: Execute code that the run names and no override names.
    """
    there = resolve_device(device)
    folder = RunFolder.open(run)
    with trusting(trust):
        config = _config(folder, overrides)
        own = folder.plain_config()
        weights = _average(config, own) if weights == "ema" else weights
        found = _checkpoint(folder, checkpoint, weights)
        # drawing needs no data on this machine
        spec = _recorded_spec(found) if _same(config.data, own.get("data")) else None
        parts = of_run(build_parts(config, spec=spec), folder.path)
        model = build_model(parts)
        ends = _trained_ends(folder, own, config) if overrides else None
    model.trained_range = ends
    load_weights(model, found, weights)
    return Loaded(model.to(there).eval(), parts, folder, found)


def check_ema(run: str | PathLike[str], overrides: Iterable[str], trust: bool = False) -> None:
    """Raise unless the run keeps the average that the overrides choose."""
    folder = RunFolder.open(run)
    with trusting(trust):
        config = folder.config(overrides)
    _average(config, folder.plain_config())


def _same(now: ComponentSpec | None, recorded: Any) -> bool:
    """Whether a component is the recorded one, with the recorded options."""
    try:
        return bool(to_plain(now) == recorded)
    except NotPlainError:
        return False


def _average(config: Config, own: Mapping[str, Any]) -> str:
    """The part of a checkpoint with the requested average, of those that the run keeps."""
    ema_decay, train = config.train.ema, own.get("train") or {}
    ema, also = train.get("ema", ema_decay), train.get("ema_also", ())
    if ema_decay == ema:
        return "ema"
    if ema_decay in also:
        return ema_part(ema_decay)
    there = ", ".join(map(str, (ema, *also)))
    raise ConfigError(
        f"train.ema={ema_decay}: the run keeps no such average; choose of {there} "
        "(train.ema_also has a run keep several)"
    )


def _config(folder: RunFolder, overrides: Any) -> Config:
    """The run's config with the overrides.

    Neither samples nor bits/dim need the weighting that a network was trained with: one whose
    package is not installed is replaced by w = 1, with a warning.
    """
    try:
        return folder.config(overrides)
    except ConfigError as error:
        try:
            given = overrides.items() if isinstance(overrides, Mapping) else overrides
            config = folder.config([("weighting", One()), *given])
        except (ElbowroomError, TypeError):
            raise error from None
        warnings.warn(f"{error}\nit is not needed here: w = 1 is in its place", stacklevel=3)
        return config


def of_run(parts: Parts, run: Path) -> Parts:
    """The parts of a run, with the sampler's grid for this run."""
    sampler = parts.sampler
    if sampler is not None and (grid := sampler.grid.of_run(run)) is not sampler.grid:
        sampler = attrs.evolve(sampler, grid=grid)
    return attrs.evolve(parts, sampler=sampler, run=run)


def _trained_ends(
    folder: RunFolder, own: Mapping[str, Any], config: Config
) -> tuple[float, float] | None:
    """The range of log-SNR of a run's training; None if ``config`` has the same schedule."""
    recorded = own.get("schedule") or config.process.build().natural_schedule
    if _same(config.schedule, recorded):
        return None
    return log_snr_range(folder.component("schedule", recorded, config.process).build())


def _recorded_spec(checkpoint: Checkpoint) -> DataSpec | None:
    """The form of the data a run was trained on, if recorded."""
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
    if str(wanted) in ("best", "last"):
        order = best_first(found) if wanted == "best" else found[::-1]
        if good := next(undamaged(order, part), None):
            return good
        raise ElbowroomError(f"every checkpoint of {folder.path} is damaged")
    for one in found:
        if str(one.step) == str(wanted):
            return one
    steps = ", ".join(str(one.step) for one in found)
    raise ElbowroomError(f"no checkpoint {wanted!r} in {folder.path}: choose best, last or {steps}")

"""Start and resume runs.

:func:`.loop.fit` is the outer loop, :meth:`.step.Training.step` the inner loop.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import attrs
from elbowroom import Config, Dataset, Diffusion, Losses, RunError, load_config
from elbowroom.config import Parts, build_model, build_parts, to_plain
from elbowroom.randomness import preserve_generators
from elbowroom.registry import trusting
from elbowroom.runs import (
    Checkpoint,
    RunFolder,
    State,
    find_checkpoints,
    named_tensors,
    provenance,
    read_tensors,
    restore,
)

from .changes import check_unchanged
from .loop import RunResult, check_run, fit, last_checkpoint
from .observers import Observers, check_observers
from .ranks import Ranks, process_group
from .step import Training

_LOCK_TIMEOUT = 120.0  # seconds


def train(
    config: Config,
    out: str | PathLike[str],
    *,
    built: tuple[Parts, Diffusion] | None = None,
    device: str | None = None,
    without: Collection[str] = (),
    auto_resume: bool = False,
) -> RunResult:
    """Train a config in the new folder ``out``; observers in ``without`` are not notified.

    ``built`` holds the parts and the model of the config, if they were built before. With
    ``auto_resume`` a run of this config that exists there is resumed, so that one command starts
    and restarts a job. Under ``torchrun`` every rank calls this.
    """
    check_observers(without)
    to_plain(config)  # raises if the config cannot be recorded
    if auto_resume and _run_exists(Path(out)):
        return resume(out, config=config, built=built, device=device, without=without)
    with process_group(device) as ranks:
        return _start(config, built, Path(out), ranks, without)


def resume(
    folder: str | PathLike[str],
    overrides: Any = (),
    *,
    config: Config | None = None,
    data: Dataset | None = None,
    built: tuple[Parts, Diffusion] | None = None,
    device: str | None = None,
    without: Collection[str] = (),
    trust: bool = False,
    restart: bool = False,
) -> RunResult:
    """Resume a run, on any number of ranks; see :func:`elbowroom.resume`.

    ``built`` holds the parts and the model of ``config``, if they were built before.
    """
    check_observers(without)
    opened = RunFolder.open(folder)
    with trusting(trust):
        if config is None:
            now = opened.config(overrides)
        else:
            now = load_config(config, overrides) if overrides else config
        then = opened.plain_config()
        check_unchanged(now, then, str(opened.path))
        if now.schedule is None and then.get("schedule") is not None:
            schedule = opened.component("schedule", then["schedule"], now.process)
            now = attrs.evolve(now, schedule=schedule)
    latest = next(iter(find_checkpoints(opened.checkpoints)[0][::-1]), None)
    if latest is not None:
        if latest.state.config is not None:
            check_unchanged(now, latest.state.config, str(latest.path))
        if now.train.steps < latest.step:
            raise RunError(
                f"{opened.path} is at step {latest.step} already, beyond train.steps="
                f"{now.train.steps}"
            )
    with process_group(device) as ranks:
        return _resume(now, then, opened, built, ranks, without, restart=restart, data=data)


def _run_exists(out: Path) -> bool:
    """Return whether the folder contains a run, after waiting for a process that writes to it."""
    folder = RunFolder(out)

    def exists() -> bool:
        with folder.locked(_LOCK_TIMEOUT) if folder.exists else contextlib.nullcontext():
            return folder.exists

    with process_group("cpu") as ranks:
        found: bool = ranks.first(exists)  # a late rank would already find the new run
        return found


# Local variables below hold the model, so that it is freed before the process group is destroyed.


def _start(
    config: Config,
    built: tuple[Parts, Diffusion] | None,
    out: Path,
    ranks: Ranks,
    without: Collection[str],
) -> RunResult:
    folder = RunFolder(out)
    parts, model = built or _built(config)
    check_run(model, parts.dataset(), config.train, ranks)
    ranks.positions(config.train.batch_size)  # raises if ranks cannot share the batch
    ranks.first(folder.check_free)
    with run_lock(folder, ranks):
        ranks.first(lambda: str(RunFolder.create(out, parts.config).path))
        return _run(parts, model, folder, ranks, without)


def _resume(
    now: Config,
    then: Mapping[str, Any],
    folder: RunFolder,
    built: tuple[Parts, Diffusion] | None,
    ranks: Ranks,
    without: Collection[str],
    *,
    restart: bool,
    data: Dataset | None,
) -> RunResult:
    parts, model = built or _built(now, data)
    check_run(model, parts.dataset(), now.train, ranks)
    with run_lock(folder, ranks):
        if restart:
            ranks.first(folder.restart)
        checkpoint = last_checkpoint(folder, ranks)
        changed = to_plain(now) != then or not folder.recorded(now)
        ranks.first(lambda: folder.rewrite(now) if changed else None)
        return _run(parts, model, folder, ranks, without, checkpoint)


@contextlib.contextmanager
def run_lock(folder: RunFolder, ranks: Ranks) -> Iterator[None]:
    """Lock the folder against other processes. A collective call."""
    with contextlib.ExitStack() as stack:
        ranks.first(lambda: stack.enter_context(folder.locked()))
        yield


def _built(config: Config, data: Dataset | None = None) -> tuple[Parts, Diffusion]:
    """Build the parts and the model of a config, with ``data`` if the config names none."""
    parts = build_parts(config, None if data is None else data.spec)
    parts = parts if data is None else attrs.evolve(parts, data=data)
    parts.dataset()  # raises if there is no data
    return parts, build_model(parts)


def _run(
    parts: Parts,
    model: Diffusion,
    folder: RunFolder,
    ranks: Ranks,
    without: Collection[str],
    checkpoint: Checkpoint | None = None,
) -> RunResult:
    from elbowroom import installed

    config = parts.config
    return fit(
        model,
        parts.dataset(),
        folder,
        config.train,
        seed=config.seed,
        ranks=ranks,
        record=State(config=to_plain(config), provenance=provenance(config)),
        observers=Observers(installed().hook, without),
        checkpoint=checkpoint,
    )


def reproduce(
    report: str | PathLike[str], device: str | None = None, *, trust: bool = False
) -> Losses:
    """Return the losses of a non-finite step from its folder ``RUN/non_finite/step-N``."""
    path = Path(report)
    with trusting(trust):
        config = RunFolder.open(path.parent.parent).config()
    with process_group(device) as ranks, preserve_generators(ranks.device):
        parts, model = _built(config)
        training = Training(model, parts.dataset(), config.train, seed=config.seed, ranks=ranks)
        weights = read_tensors(path / "model.safetensors")
        restore(named_tensors(training.model), weights, str(path))
        losses = training.gradients(int(path.name.removeprefix("step-")))
        training.batches.close()
        return losses

"""Training: from a config or a run folder to a finished run.

:meth:`.step.Training.step` is the inner loop, :func:`.loop.fit` the outer.
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
    RunFolder,
    State,
    find_checkpoints,
    named_tensors,
    provenance,
    read_tensors,
    restore,
)

from .changes import check_unchanged
from .loop import RunResult, Start, check_run, fit_checked
from .observers import Observers, check_observers
from .ranks import Ranks, process_group
from .step import Training

_PATIENCE = 120.0  # seconds for another process to leave the folder


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
    to_plain(config)  # what cannot be written down cannot be resumed
    if auto_resume and _has_begun(Path(out)):
        data = None if built is None else built[0].data
        return resume(out, config=config, data=data, device=device, without=without)
    with process_group(device) as ranks:
        return _begin(config, built, Path(out), ranks, without)


def resume(
    folder: str | PathLike[str],
    overrides: Any = (),
    *,
    config: Config | None = None,
    data: Dataset | None = None,
    device: str | None = None,
    without: Collection[str] = (),
    trust: bool = False,
    restart: bool = False,
) -> RunResult:
    """Go on with a run, on any number of ranks.

    ``overrides`` may lengthen the run or change what is logged and kept; anything else, also in a
    ``config`` that is given to be sure it is the same, is refused with the keys that differ. Code
    that the run names, and that neither ``config`` nor an override names, is executed only with
    ``trust``. A run whose checkpoints are lost or cannot be read is refused too, unless
    ``restart`` begins it again.
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
                f"{opened.path} is at step {latest.step} already: train.steps={now.train.steps} "
                "lies behind it"
            )
    with process_group(device) as ranks:
        return _resume(now, then, opened, ranks, without, restart=restart, data=data)


def _has_begun(out: Path) -> bool:
    """Is there a run in the folder? One that still saves itself, or ends, is waited for."""
    folder = RunFolder(out)

    def look() -> bool:
        with folder.locked(_PATIENCE) if folder.exists else contextlib.nullcontext():
            return folder.exists

    with process_group("cpu") as ranks:
        begun: bool = ranks.first(look)  # for all: another rank may be late, and see more
        return begun


# Models live in these functions, so that none is left when the ranks part.


def _begin(
    config: Config,
    built: tuple[Parts, Diffusion] | None,
    out: Path,
    ranks: Ranks,
    without: Collection[str],
) -> RunResult:
    folder = RunFolder(out)
    parts, model = built or _built(config)
    check_run(model, parts.dataset(), config.train, ranks)  # before anything is written
    ranks.positions(config.train.batch_size)
    ranks.first(folder.check_free)
    with run_lock(folder, ranks):
        ranks.first(lambda: str(RunFolder.create(out, parts.config).path))
        return _run(parts, model, folder, ranks, without)


def _resume(
    now: Config,
    then: Mapping[str, Any],
    folder: RunFolder,
    ranks: Ranks,
    without: Collection[str],
    *,
    restart: bool,
    data: Dataset | None,
) -> RunResult:
    parts, model = _built(now, data)
    check_run(model, parts.dataset(), now.train, ranks)
    with run_lock(folder, ranks):
        if restart:
            ranks.first(folder.restart)
        start = Start.of(folder, ranks)
        ranks.first(
            lambda: (
                folder.rewrite(now) if to_plain(now) != then or not folder.recorded(now) else None
            )
        )
        return _run(parts, model, folder, ranks, without, start)


@contextlib.contextmanager
def run_lock(folder: RunFolder, ranks: Ranks) -> Iterator[None]:
    """No other process trains in the folder meanwhile; every rank must ask."""
    with contextlib.ExitStack() as stack:
        ranks.first(lambda: stack.enter_context(folder.locked()))
        yield


def _built(config: Config, data: Dataset | None = None) -> tuple[Parts, Diffusion]:
    """What a config describes, with ``data`` where those it was made with have no name."""
    parts = build_parts(config, None if data is None else data.spec)
    parts = parts if data is None else attrs.evolve(parts, data=data)
    parts.dataset()  # asked first: a network is built for data
    return parts, build_model(parts)


def _run(
    parts: Parts,
    model: Diffusion,
    folder: RunFolder,
    ranks: Ranks,
    without: Collection[str],
    start: Start | None = None,
) -> RunResult:
    from elbowroom import installed

    config = parts.config
    return fit_checked(
        model,
        parts.dataset(),
        folder,
        config.train,
        seed=config.seed,
        ranks=ranks,
        record=State(config=to_plain(config), provenance=provenance(config)),
        observers=Observers(installed().hook, without),
        start=start,
    )


def reproduce(
    fault: str | PathLike[str], device: str | None = None, *, trust: bool = False
) -> Losses:
    """The losses of a step that was not finite, from the folder a run left of it."""
    path = Path(fault)
    with trusting(trust):
        config = RunFolder.open(path.parent.parent).config()
    with process_group(device) as ranks, preserve_generators(ranks.device):
        parts, model = _built(config)
        training = Training(model, parts.dataset(), config.train, seed=config.seed, ranks=ranks)
        weights = read_tensors(path / "model.safetensors")
        restore(named_tensors(training.model), weights, str(path))
        losses = training.gradients(int(path.name.removeprefix("step-")))
        training.feed.close()
        return losses

"""A finished run under another sampler: the same training, in a folder of its own.

How samples are drawn does not touch training, so a run can lend its checkpoints and its log to one
whose config differs in ``sampler`` alone. Weights are linked, not copied, where the disk can do it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
from elbowroom import (
    Checkpoint,
    Config,
    ElbowroomError,
    RunFolder,
    checkpoints,
    clean,
    flush_to_disk,
    provenance,
    prune,
    replace_file,
    to_plain,
)

_OF_DRAWING = "sampler"


def training_of(config: Config) -> dict[str, Any]:
    """What training depends on: two configs that agree here train the same model."""
    plain: dict[str, Any] = json.loads(json.dumps(to_plain(config)))
    return {key: value for key, value in plain.items() if key != _OF_DRAWING}


def can_adopt(config: Config, source: Path) -> bool:
    """Is there a finished run in ``source`` that was trained as ``config`` wants it?"""
    try:
        run = RunFolder.open(source)
        latest = run.latest()
        same = training_of(run.config()) == training_of(config)
    except ElbowroomError:
        return False
    return same and latest is not None and latest.step == config.train.steps


def adopt(config: Config, folder: Path, source: Path) -> RunFolder:
    """Make ``folder`` the run of ``config`` with the training of ``source``.

    A shorter run that is there already is lengthened. Checkpoints come one by one, each all or
    nothing, the last one last: a kill in between leaves a run that can go on by itself.
    """
    lent, run = RunFolder.open(source), _begun(folder, config)
    record = {"config": to_plain(config), "provenance": provenance(config)}
    try:
        with suppress(FileNotFoundError):
            replace_file(run.log, lent.log.read_bytes())
        run.checkpoints.mkdir(exist_ok=True)
        clean(run.checkpoints)
        for checkpoint in checkpoints(lent.checkpoints):
            _lend(checkpoint, run.checkpoints, {**record, "trained_in": lent.path.name})
            run.note_saved(checkpoint.step)
        prune(run.checkpoints, config.train.keep, config.train.milestones)
    except OSError as error:
        raise ElbowroomError(f"cannot write to {folder}: {error.strerror}") from error
    return run


def _begun(folder: Path, config: Config) -> RunFolder:
    run = RunFolder(folder)
    if not run.has_begun:
        return RunFolder.create(folder, config)
    run.rewrite(config)
    return run


def _lend(checkpoint: Checkpoint, folder: Path, record: Mapping[str, Any]) -> None:
    """The same tensors, under another config."""
    final = folder / checkpoint.path.name
    if final.exists():
        return
    aside = folder / f".{final.name}.partial-{os.getpid()}"
    aside.mkdir()
    for name in checkpoint.state.files:
        _link(checkpoint.path / name, aside / name)
    attrs.evolve(checkpoint.state, **record).write(aside)
    flush_to_disk(aside)
    aside.rename(final)
    flush_to_disk(folder)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another disk, or one that has no links
        shutil.copyfile(source, target)

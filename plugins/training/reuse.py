"""A training lent to another run: its checkpoints and its log, in that run's own folder.

How samples are drawn does not touch training, so runs that differ in that alone can share one.
Weights are linked, not copied, where the disk can do it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import attrs
from elbowroom import Config, ElbowroomError
from elbowroom.config import to_plain
from elbowroom.files import atomic_folder, replace_file
from elbowroom.runs import RunFolder, checkpoints, clean, provenance, prune


def reuse_training(source: RunFolder, run: RunFolder, config: Config) -> None:
    """Give ``run``, whose config is ``config``, the log and the checkpoints of ``source``.

    Checkpoints come one by one, each all or nothing, the last one last: a kill in between leaves a
    run that can go on by itself. Those that the run has already stay.
    """
    plain, supplied, origin = to_plain(config), provenance(config), source.path.name
    try:
        if source.log.exists():
            replace_file(run.log, source.log.read_bytes())
        run.checkpoints.mkdir(exist_ok=True)
        clean(run.checkpoints)
        for lent in checkpoints(source.checkpoints):
            place = run.checkpoints / lent.path.name
            if not place.exists():
                with atomic_folder(place) as aside:
                    for name in lent.state.files:
                        _link(lent.path / name, aside / name)
                    state = attrs.evolve(lent.state, config=plain, provenance=supplied)
                    attrs.evolve(state, trained_in=origin).write(aside)
            run.record_first_checkpoint(lent.step)
        prune(run.checkpoints, config.train.keep, config.train.milestones)
    except OSError as error:
        raise ElbowroomError(f"cannot write to {run.path}: {error.strerror}") from error


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another disk, or one that has no links
        shutil.copyfile(source, target)

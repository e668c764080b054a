"""Reuse the training of one run in another: copy its checkpoints and log.

Runs that differ only in how samples are drawn can share one training. Files with weights are
hard-linked if the file system supports it.
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
    """Copy log and checkpoints of ``source`` into ``run``, which has the config ``config``.

    Checkpoints are written atomically, the last one last: after a kill the run can be resumed.
    Existing checkpoints are kept.
    """
    plain, supplied, origin = to_plain(config), provenance(config), source.path.name
    try:
        if source.log.exists():
            replace_file(run.log, source.log.read_bytes())
        run.checkpoints.mkdir(exist_ok=True)
        clean(run.checkpoints)
        for reused in checkpoints(source.checkpoints):
            place = run.checkpoints / reused.path.name
            if not place.exists():
                with atomic_folder(place) as aside:
                    for name in reused.state.files:
                        _link(reused.path / name, aside / name)
                    state = attrs.evolve(reused.state, config=plain, provenance=supplied)
                    attrs.evolve(state, trained_in=origin).write(aside)
            run.record_first_checkpoint(reused.step)
        prune(run.checkpoints, config.train.keep, config.train.milestones)
    except OSError as error:
        raise ElbowroomError(f"cannot write to {run.path}: {error.strerror}") from error


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)

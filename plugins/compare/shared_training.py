"""A finished run under another sampler: the same training, in a folder of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from elbowroom import Config, ElbowroomError, RunFolder, lend_training, to_plain

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

    A shorter run that is there already is lengthened.
    """
    run = RunFolder(folder)
    if run.has_begun:
        run.rewrite(config)
    else:
        run = RunFolder.create(folder, config)
    lend_training(RunFolder.open(source), run, config)
    return run

"""A finished run under another sampler: the same training, in a folder of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elbowroom import Config, ElbowroomError
from elbowroom.config import to_plain
from elbowroom.plugins.training.reuse import reuse_training
from elbowroom.runs import RunFolder

_OF_DRAWING = "sampler"


def training_of(config: Config) -> dict[str, Any]:
    """What training depends on: two configs that agree here train the same model."""
    return without_sampler(to_plain(config))


def without_sampler(config: Mapping[str, Any]) -> dict[str, Any]:
    """The same of a config that is plain data."""
    plain: dict[str, Any] = json.loads(json.dumps(config))
    return {key: value for key, value in plain.items() if key != _OF_DRAWING}


def can_adopt(config: Config, source: Path) -> bool:
    """Is there a finished run in ``source`` that was trained as ``config`` wants it?"""
    try:
        run = RunFolder.open(source)
        latest = run.latest()
        same = without_sampler(run.plain_config()) == training_of(config)
    except ElbowroomError:
        return False
    return same and latest is not None and latest.step == config.train.steps


def adopt(config: Config, folder: Path, source: Path) -> RunFolder:
    """Make ``folder`` the run of ``config`` with the training of ``source``.

    A shorter run that is there already is lengthened.
    """
    run = RunFolder(folder)
    if run.exists:
        run.rewrite(config)
    else:
        run = RunFolder.create(folder, config)
    reuse_training(RunFolder.open(source), run, config)
    return run

"""Reuse of a finished training by a point that differs in the sampler alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elbowroom import Config, ElbowroomError
from elbowroom.config import to_plain
from elbowroom.plugins.training.reuse import reuse_training
from elbowroom.runs import RunFolder


def training_of(config: Config) -> dict[str, Any]:
    """The part of a config that training depends on: all but the sampler."""
    return _without_sampler(to_plain(config))


def _without_sampler(config: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(config))
    return {key: value for key, value in plain.items() if key != "sampler"}


def can_adopt(config: Config, source: Path) -> bool:
    """Does ``source`` have a finished run with the training that ``config`` describes?"""
    try:
        run = RunFolder.open(source)
        latest = run.latest()
        same = _without_sampler(run.plain_config()) == training_of(config)
    except ElbowroomError:
        return False
    return same and latest is not None and latest.step == config.train.steps


def adopt(config: Config, folder: Path, source: Path) -> RunFolder:
    """Make ``folder`` the run of ``config`` with the training of ``source``.

    A shorter run in ``folder`` is lengthened.
    """
    run = RunFolder(folder)
    if run.exists:
        run.rewrite(config)
    else:
        run = RunFolder.create(folder, config)
    reuse_training(RunFolder.open(source), run, config)
    return run

"""Runs small enough to be broken by the hundred, and what is the same in two of them."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from elbowroom.config.sections import dump_yaml

from ..helpers.tiny_run import curve, found, same, tiny_config
from .child import ran

QUIET = ("--without", "console", "--without", "tensorboard")


def config_file(folder: Path, **train: Any) -> Path:
    """The tiny run's config as a file."""
    path = folder / "tiny.yaml"
    path.write_text(dump_yaml(tiny_config(**train)), "utf-8")
    return path


def whole_run(folder: Path, **train: Any) -> Path:
    """A run nobody disturbed."""
    ended = ran("train", config_file(folder, **train), "--out", folder / "whole", *QUIET)
    assert ended.code == 0, ended.err
    return folder / "whole"


def cut_run(whole: Path, target: Path) -> Path:
    """A copy that has yet to make its last checkpoint."""
    shutil.copytree(whole, target)
    shutil.rmtree(found(target)[-1].path)
    return target


def same_end(one: Path, other: Path) -> bool:
    """Have two runs the same last checkpoint and the same curve, bit by bit?"""
    from elbowroom.runs.folder import RunFolder

    rows = [curve(RunFolder(run).rows()) for run in (one, other)]
    return same(found(one)[-1], found(other)[-1]) and rows[0] == rows[1]


def samples_in(folder: Path) -> str:
    """A digest of the samples that were drawn into a folder."""
    with np.load(folder / "samples.npz") as kept:
        return hashlib.sha256(kept["x"].tobytes()).hexdigest()


def left_behind(folder: Path) -> list[str]:
    """Half-written checkpoints that a finished run still has."""
    return [path.name for path in (folder / "checkpoints").glob(".*")]


def files_of(folder: Path) -> list[Path]:
    """Every file of a run, in an order that does not change."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def tree(paths: Iterable[Path]) -> dict[str, bytes]:
    """The content of files."""
    return {str(path): path.read_bytes() for path in paths}

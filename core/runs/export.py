"""Exporting a run: what an exporter writes is there whole or not at all."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from ..config.sections import named_component
from ..contracts.exporter import Exporter
from ..errors import ElbowroomError
from ..files.atomic import atomic_folder, give_mode_of_new_files
from .load import load_run


def export_run(
    run: str | PathLike[str],
    to: str | dict[str, Any],
    out: str | PathLike[str],
    overrides: Any = (),
    *,
    checkpoint: str | int = "best",
    trust: bool = False,
) -> Path:
    """Write a run with its averaged weights as ``to`` says; answers the new folder.

    Code that a run from elsewhere refers to is executed only with ``trust``.
    """
    from safetensors import SafetensorError

    exporter: Exporter = named_component("exporter", to, path="--to").build()
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ElbowroomError(f"{folder} exists already and is not empty: choose another folder")
    loaded = load_run(run, overrides, checkpoint, device="cpu", trust=trust)
    config = loaded.folder.config(overrides)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with atomic_folder(folder) as aside:
            exporter.write(loaded, config, aside)
            give_mode_of_new_files(aside)  # safetensors' own are for their owner alone
    except (OSError, SafetensorError) as error:  # what a full disk is called by whom
        words = getattr(error, "strerror", None) or error
        raise ElbowroomError(f"cannot write {folder}: {words}") from error
    return folder

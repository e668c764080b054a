"""Export a run."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from elbowroom import ElbowroomError, named_component
from elbowroom.files import apply_default_mode, atomic_folder
from elbowroom.registry import trusting
from elbowroom.runs import load_run

from .exporter import Exporter


def export_run(
    run: str | PathLike[str],
    to: str | dict[str, Any],
    out: str | PathLike[str],
    overrides: Any = (),
    *,
    checkpoint: str | int = "best",
    trust: bool = False,
) -> Path:
    """Write a run with its averaged weights in the format ``to``; return the new folder.

    Code that the run's config refers to is executed only with ``trust``.
    """
    from safetensors import SafetensorError

    exporter: Exporter = named_component("exporter", to, path="--to").build()
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ElbowroomError(f"{folder} is not empty. Choose another folder.")
    loaded = load_run(run, overrides, checkpoint, device="cpu", trust=trust)
    with trusting(trust):
        config = loaded.folder.config(overrides)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with atomic_folder(folder) as aside:
            exporter.write(loaded, config, aside)
            apply_default_mode(aside)  # safetensors creates files with mode 600
    except (OSError, SafetensorError) as error:  # both report a full disk
        words = getattr(error, "strerror", None) or error
        raise ElbowroomError(f"cannot write {folder}: {words}") from error
    return folder

"""Files and folders that are there whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from ..errors import ElbowroomError


def write_atomically(path: Path, content: bytes) -> None:
    """As :func:`replace_file`; what goes wrong is told as our error."""
    try:
        replace_file(path, content)
    except OSError as error:
        raise ElbowroomError(f"cannot write {path}: {error.strerror}") from error


def replace_file(path: Path, content: bytes) -> None:
    """Write aside, make sure it is on disk, then rename: at any moment the old file or the new."""
    aside = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        write_forced(aside, content)
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    flush_to_disk(path.parent)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which gets its name ``path`` when that went well.

    It is forced to disk first. The folder around it must be there, and an empty folder of its name
    gives way. What a killed process leaves is called ``.NAME.partial-...``: see :func:`sweep`.
    """
    aside = path.with_name(f".{path.name}.partial-{uuid4().hex}")
    try:
        aside.mkdir()
        yield aside
        for written in (*aside.rglob("*"), aside):
            flush_to_disk(written)
        with suppress(OSError):  # there is none, or it is not empty
            path.rmdir()
        aside.rename(path)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    flush_to_disk(path.parent)


def apply_default_mode(folder: Path) -> None:
    """Whoever may read one file of ``folder`` may read all of them."""
    new = folder / f".mode-{uuid4().hex}"
    new.touch()
    mode = new.stat().st_mode
    new.unlink()
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():  # what a link leads to is not of the folder
            path.chmod(mode)


def remove_folder(path: Path) -> None:
    """First the name that means "whole", then the rest: a kill in between leaves no half."""
    aside = path.with_name(f".{path.name}.partial-{uuid4().hex}")
    path.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def remove_leftovers(folder: Path, names: str) -> None:
    """Remove what killed processes left in ``folder`` under names like ``.step-*``."""
    for left in folder.glob(names):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        with suppress(OSError):
            left.unlink()


def write_forced(path: Path, content: bytes) -> None:
    """Write a file and force it to disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def flush_to_disk(path: Path) -> None:
    """Make the system write to disk what it holds of a file or folder."""
    if os.name != "posix" and path.is_dir():
        return  # only there can a folder be opened
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

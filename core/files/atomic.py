"""Atomic writes of files and folders."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from ..errors import ElbowroomError


def write_atomically(path: Path, content: bytes) -> None:
    """As :func:`replace_file`; an OSError becomes an ElbowroomError."""
    try:
        replace_file(path, content)
    except OSError as error:
        raise ElbowroomError(f"cannot write {path}: {error.strerror}") from error


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically: write a temporary file, flush it to disk, rename it."""
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
    """A temporary folder to fill, flushed to disk and renamed to ``path`` on success.

    Its parent must exist; an empty folder at ``path`` is replaced. A killed process leaves
    ``.NAME.partial-...``: see :func:`remove_leftovers`.
    """
    aside = path.with_name(f".{path.name}.partial-{uuid4().hex}")
    try:
        aside.mkdir()
        yield aside
        for written in (*aside.rglob("*"), aside):
            flush_to_disk(written)
        with suppress(OSError):  # missing, or not empty
            path.rmdir()
        aside.rename(path)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    flush_to_disk(path.parent)


def apply_default_mode(folder: Path) -> None:
    """Give all files of ``folder`` the mode of a new file."""
    new = folder / f".mode-{uuid4().hex}"
    new.touch()
    mode = new.stat().st_mode
    new.unlink()
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(mode)


def remove_folder(path: Path) -> None:
    """Rename a folder, then delete it, so that a kill leaves no incomplete folder at ``path``."""
    aside = path.with_name(f".{path.name}.partial-{uuid4().hex}")
    path.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def remove_leftovers(folder: Path, names: str) -> None:
    """Remove files and folders in ``folder`` that match ``names``, such as ``.step-*``."""
    for left in folder.glob(names):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        with suppress(OSError):
            left.unlink()


def write_forced(path: Path, content: bytes) -> None:
    """Write a file and flush it to disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def flush_to_disk(path: Path) -> None:
    """Flush a file or folder to disk."""
    if os.name != "posix" and path.is_dir():
        return  # folders cannot be opened
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

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

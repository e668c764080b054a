"""Locks between processes. A lock is released when its process ends."""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ..errors import ElbowroomError

LOCK = ".lock"
_TICK = 0.1  # seconds between attempts


class LockedError(ElbowroomError):
    """Another process holds the lock of a folder."""


@contextmanager
def locked(folder: Path, doing: str, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock of a folder, created if missing; wait at most ``patience`` seconds."""
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if (folder / LOCK).is_symlink() or (folder / LOCK).is_fifo():
                raise ElbowroomError(f"{folder / LOCK} is not a regular file. Remove it.")
            file = stack.enter_context((folder / LOCK).open("a"))
        except OSError as error:
            raise ElbowroomError(f"cannot write to {folder}: {error.strerror}") from error
        if take_lock(file, patience) is False:
            raise LockedError(f"another process is {doing} in {folder}")
        yield


def take_lock(file: IO[str], patience: float = 0.0) -> bool | None:
    """Take the lock of an open file, waiting at most ``patience`` seconds.

    Returns:
        False if another process has it, None if the system or the disk has no locks.
    """
    end = time.monotonic() + patience
    while (taken := _taken(file)) is False and time.monotonic() < end:
        time.sleep(_TICK)
    return taken


def _taken(file: IO[str]) -> bool | None:
    try:
        import fcntl
    except ImportError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EACCES, errno.EAGAIN) else None
    return True

"""Errors of run folders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import ElbowroomError


class RunError(ElbowroomError):
    """A run folder that cannot be used or written."""


@contextmanager
def readable_disk_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into a one-line RunError."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot write to {path}: {error.strerror}") from error

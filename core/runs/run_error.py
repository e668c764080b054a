"""What is said of a run folder that cannot be used as asked, or written to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import ElbowroomError


class RunError(ElbowroomError):
    """A run folder that cannot be used as asked."""


@contextmanager
def readable_disk_errors(path: Path) -> Iterator[None]:
    """Whatever the disk says is told in a sentence."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot write to {path}: {error.strerror}") from error

"""Locations of a source's files, and the errors when they are missing or unreadable."""

from __future__ import annotations

import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs
from elbowroom import ElbowroomError


@attrs.frozen
class Recipe:
    """The files a source needs, and how to get them."""

    name: str  # of the data set, as in a config
    files: str  # what is needed
    get: str  # how to get it

    def missing(self, places: Sequence[Path]) -> ElbowroomError:
        """The error to raise when none of ``places`` has the files."""
        return ElbowroomError(
            f"{self.name}: files not found in {' or '.join(map(str, places))}.\n"
            f"  needed: {self.files}\n"
            f"  get it: {self.get}\n"
            f"  put it: into {home(self.name)}, or anywhere with data.path=FOLDER"
        )


def home(name: str) -> Path:
    """The default folder of a data set: ``$ELBOWROOM_DATA/name``."""
    root = os.environ.get("ELBOWROOM_DATA") or "~/.local/share/elbowroom"
    return Path(root).expanduser() / name


def places(name: str, path: Path | None, *others: Path) -> list[Path]:
    """The folders to search: the given one only, or else the default ones."""
    return [Path(path).expanduser()] if path is not None else [home(name), *others]


_FAILURES = (
    *(OSError, EOFError, ValueError, KeyError, RuntimeError, SyntaxError),  # of numpy and zipfile
    *(zlib.error, zipfile.BadZipFile, tokenize.TokenError),
)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn any failure to read ``path`` into an ElbowroomError that names it."""
    try:
        yield
    except ElbowroomError:
        raise
    except MemoryError:
        raise ElbowroomError(f"cannot read {path}: it does not fit into memory") from None
    except _FAILURES as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ElbowroomError(f"cannot read {path}: {reason or type(error).__name__}") from error


def check_labels(low: int, high: int, classes: int, path: Path) -> None:
    """Raise unless labels lie in 0 .. classes-1."""
    if low < 0 or high >= classes:
        raise ElbowroomError(f"{path}: labels {low} to {high}; allowed are 0 to {classes - 1}")

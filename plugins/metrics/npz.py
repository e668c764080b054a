"""Arrays out of an ``.npz`` file that may be anybody's: numbers and words, never objects.

An ``.npz`` is a zip of ``.npy`` files: each a header (type and shape), then the numbers. Both may
lie: a header may promise more than any memory holds, a small zip may unfold to terabytes, and
numpy's own reader would take memory first and complain later. Here an array's shape is known before
any number is read, numbers are read some rows at a time, and every damage is one sentence.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from elbowroom import ElbowroomError

_DAMAGE = (
    *(OSError, EOFError, ValueError, RuntimeError, NotImplementedError),
    *(zipfile.BadZipFile, zlib.error),
)
_FILES = 64  # looked at
_AXES = 8  # more than anything here has
_MANY = 2**40  # numbers of one array, and of one side


@attrs.frozen
class Stored:
    """One array of the file, as its header describes it."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_columns: bool  # Fortran's order

    @property
    def row(self) -> int:
        """Numbers in one entry of the first axis."""
        return math.prod(self.shape[1:])


class Npz:
    """An open file; its arrays by name."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path, self._archive = path, archive
        self.arrays: dict[str, Stored] = {}
        for file in archive.namelist()[:_FILES]:
            if file.endswith(".npy"):
                with archive.open(file) as stream:
                    self.arrays[file[:-4]] = _header(stream, file[:-4])

    def whole(self, name: str) -> np.ndarray[Any, Any]:
        """An array at once; its shape was looked at before."""
        stored = self.arrays[name]
        with self._archive.open(f"{name}.npy") as stream:
            _header(stream, name)
            found = _numbers(stream, stored, math.prod(stored.shape))
        return found.reshape(stored.shape, order="F" if stored.by_columns else "C")

    def rows(self, name: str, size: int) -> Iterator[np.ndarray[Any, Any]]:
        """An array part by part, ``size`` entries of its first axis at a time."""
        stored = self.arrays[name]
        if stored.by_columns:
            raise ValueError(f"{name} is stored column by column")
        with self._archive.open(f"{name}.npy") as stream:
            _header(stream, name)
            for first in range(0, stored.shape[0], size):
                count = min(size, stored.shape[0] - first)
                part = _numbers(stream, stored, count * stored.row)
                yield part.reshape(count, *stored.shape[1:])


@contextmanager
def open_npz(path: Path, what: str) -> Iterator[Npz]:
    """Open a file; whatever is wrong with it, until it is closed, is one sentence."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield Npz(path, archive)
    except _DAMAGE as error:
        why = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        raise ElbowroomError(f"{path} is no {what}: {why}") from error


def _header(stream: Any, name: str) -> Stored:
    """Read the header; only format 1.0, whose length is bounded: numpy writes it for any array."""
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise ValueError(f"{name} is of npy format {version[0]}.{version[1]}, not 1.0")
    shape, by_columns, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects, not numbers")
    sides = all(isinstance(side, int) and 0 <= side < _MANY for side in shape)
    if len(shape) > _AXES or not sides or math.prod(shape) >= _MANY:
        raise ValueError(f"{name} has the impossible shape {str(shape)[:80]}")
    return Stored(name, shape, dtype, by_columns)


def _numbers(stream: Any, stored: Stored, count: int) -> np.ndarray[Any, Any]:
    size = count * stored.dtype.itemsize
    content = stream.read(size)
    if len(content) != size:
        raise ValueError(f"{stored.name} ends too early")
    return np.frombuffer(content, stored.dtype, count)

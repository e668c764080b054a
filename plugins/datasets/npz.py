"""Arrays in ``.npz`` files, read in pieces, never unpickled."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import attrs
import numpy as np
from elbowroom import ElbowroomError
from numpy.lib import format as npy
from numpy.typing import NDArray

from .files import reading


@attrs.frozen(eq=False)
class NpzArray:
    """One array of an ``.npz`` file; ``shape`` and ``dtype`` are read from its header."""

    path: Path
    key: str
    shape: tuple[int, ...] = attrs.field(init=False)
    dtype: np.dtype[Any] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        with reading(self.path), zipfile.ZipFile(self.path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            if self.key not in names:
                raise ElbowroomError(
                    f"{self.path}: no array {self.key!r}; it has {', '.join(names) or 'none'}"
                )
            with archive.open(f"{self.key}.npy") as stream:
                shape, dtype = self._header(stream)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "dtype", dtype)

    def _header(self, stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
        version = npy.read_magic(stream)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, columns_first, dtype = read(stream)
        if dtype.hasobject:
            raise ElbowroomError(
                f"{self.path}: array {self.key!r} has pickled objects, which could run code: "
                "save it as numbers"
            )
        if dtype.kind not in "buif" or not _is_possible(shape):
            raise ElbowroomError(
                f"{self.path}: array {self.key!r} is {dtype} {list(shape)[:9]}, not an array of "
                "numbers"
            )
        if columns_first and len(shape) > 1:
            raise ElbowroomError(
                f"{self.path}: array {self.key!r} is in Fortran order: save it from "
                "numpy.ascontiguousarray"
            )
        return shape, dtype

    def pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        """At most ``rows`` rows at a time."""
        width = self.dtype.itemsize * math.prod(self.shape[1:])
        with (
            reading(self.path),
            zipfile.ZipFile(self.path) as archive,
            archive.open(f"{self.key}.npy") as stream,
        ):
            self._header(stream)
            for start in range(0, self.shape[0], rows):
                count = min(rows, self.shape[0] - start)
                data = stream.read(count * width)
                if len(data) != count * width:
                    raise ElbowroomError(f"{self.path}: array {self.key!r} is truncated")
                yield np.frombuffer(data, self.dtype).reshape(count, *self.shape[1:])

    def whole(self) -> NDArray[Any]:
        """The whole array, in memory."""
        pieces = list(self.pieces(1 << 16))
        return np.concatenate(pieces) if pieces else np.zeros(self.shape, self.dtype)

    def labels(self) -> NDArray[np.int64]:
        """[N] the whole array as labels."""
        array = self.whole()
        if array.dtype.kind not in "ui" and array.size:
            raise ElbowroomError(f"{self.path}: {self.key!r} are not integers")
        return array.reshape(-1).astype(np.int64)


def _is_possible(shape: tuple[int, ...]) -> bool:
    """Whether an array can have this shape; empty rows could be any number."""
    return 1 <= len(shape) <= 32 and all(0 <= side < 2**40 for side in shape) and all(shape[1:])

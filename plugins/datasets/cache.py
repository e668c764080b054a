"""Sources converted once to files with random access.

A conversion writes, for each part of a source (train, test, ...), the images as raw bytes
[N, H, W, C] and the labels as raw int64 [N], and ``about.json``. The folder is renamed into place
when complete, so an interrupted conversion is never read. Its name has a hash of everything the
result depends on: a changed source is converted again.

Rows are read, not memory-mapped: mapped pages count as the process's memory, and the system may map
two megabytes around each row.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, Any

import attrs
import numpy as np
from elbowroom import ElbowroomError
from elbowroom.files import atomic_folder, cache_folder, remove_leftovers, take_lock
from numpy.typing import NDArray

_log = logging.getLogger(__name__)
_EVERY = 10.0  # seconds between two reports of a conversion
_VERSION = 1  # of the format


@attrs.frozen(eq=False)
class DiskArray:
    """A raw array in a file, read row by row."""

    path: Path
    shape: tuple[int, ...]
    dtype: str

    def __attrs_post_init__(self) -> None:
        wanted = math.prod(self.shape) * np.dtype(self.dtype).itemsize
        try:
            found = self.path.stat().st_size
        except OSError as error:
            raise ElbowroomError(f"cannot read {self.path}: {error.strerror}") from error
        if found != wanted:
            raise ElbowroomError(
                f"{self.path} has {found} bytes instead of {wanted}: "
                f"delete the folder {self.path.parent} to convert again"
            )

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The rows [B], read one by one."""
        out = np.empty((len(rows), *self.shape[1:]), self.dtype)
        width = out.itemsize * math.prod(self.shape[1:])
        target = out.reshape(-1).view(np.uint8).data
        try:
            with self.path.open("rb", buffering=0) as file:
                for place, row in enumerate(rows.tolist()):
                    file.seek(row * width)
                    read = file.readinto(target[place * width : (place + 1) * width])
                    if read != width:
                        raise ElbowroomError(f"{self.path} is truncated")
        except OSError as error:
            raise ElbowroomError(f"cannot read {self.path}: {error.strerror}") from error
        return out


@attrs.frozen(eq=False)
class Part:
    """One part of a converted source."""

    images: DiskArray  # [N, H, W, C] uint8
    labels: DiskArray | None  # [N] int64
    left_out: tuple[str, ...] = ()  # of the whole source: skipped files, with reasons


class Writer:
    """Writes the parts of a source."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, IO[bytes]] = {}
        self._reported = time.monotonic()
        self.counts: dict[str, int] = {}
        self.left_out: list[str] = []

    def add(self, part: str, images: NDArray[Any], labels: NDArray[Any] | None) -> None:
        """Append ``images`` [n, H, W, C] uint8 and ``labels`` [n] to a part."""
        self._append(f"{part}.images", np.ascontiguousarray(images, np.uint8))
        if labels is not None:
            self._append(f"{part}.labels", np.ascontiguousarray(labels, "<i8"))
        self.counts[part] = self.counts.get(part, 0) + len(images)
        if time.monotonic() > self._reported + _EVERY:
            self._reported = time.monotonic()
            _log.info("converted so far: %s", self.counts)

    def _append(self, name: str, data: NDArray[Any]) -> None:
        if name not in self._files:
            self._files[name] = (self._folder / name).open("wb")
        self._files[name].write(data.data)

    def finish(self) -> None:
        """Flush all files and write ``about.json``."""
        for file in self._files.values():
            file.flush()
        about = {"counts": self.counts, "left_out": self.left_out}
        (self._folder / "about.json").write_text(json.dumps(about))

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            with suppress(OSError):
                file.close()


def converted(
    name: str,
    depends_on: Iterable[str],
    shape: tuple[int, ...],
    labelled: bool,
    write: Callable[[Writer], None],
) -> dict[str, Part]:
    """The parts of a converted source; calls ``write`` if it is not converted yet."""
    digest = hashlib.sha256(f"{_VERSION}\0{name}\0{shape}\0{labelled}".encode())
    for text in depends_on:
        digest.update(b"\0" + text.encode("utf-8", "surrogateescape"))
    folder = cache_folder() / "datasets" / f"{name}-{digest.hexdigest()[:24]}"
    if not folder.exists():
        _log.info("%s: converting into %s, once", name, folder)
        try:
            _convert(folder, write)
        except OSError as error:
            raise ElbowroomError(
                f"{name}: cannot convert into {folder.parent}: {error.strerror or error}. "
                "Set ELBOWROOM_CACHE to another folder"
            ) from error
    about = folder / "about.json"
    try:
        record = json.loads(about.read_text())
        sizes = {str(part): int(count) for part, count in record["counts"].items()}
        left_out = tuple(map(str, record.get("left_out", ())))
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise ElbowroomError(
            f"cannot read {about}: delete the folder {folder} to convert again"
        ) from error
    return {
        part: Part(
            DiskArray(folder / f"{part}.images", (count, *shape), "u1"),
            DiskArray(folder / f"{part}.labels", (count,), "<i8") if labelled else None,
            left_out,
        )
        for part, count in sizes.items()
    }


def _convert(folder: Path, write: Callable[[Writer], None]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        alone = take_lock(lock, math.inf)
        if folder.exists():  # another process was faster
            return
        if alone:  # without a lock, another process may be writing
            remove_leftovers(folder.parent, f".{folder.name}.*")
        try:
            with atomic_folder(folder) as aside, closing(Writer(aside)) as writer:
                write(writer)
                writer.finish()
        except OSError:
            if not folder.exists():  # without a lock, another process may have been faster
                raise

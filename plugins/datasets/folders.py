"""The images of a folder and their classes.

    FOLDER/cat/1.jpg ...                      a sub-folder for each class
    FOLDER/1.jpg ... FOLDER/metadata.csv      a table with the columns ``file_name`` and ``label``
    FOLDER/1.jpg ... FOLDER/metadata.jsonl    the same, an object a line
    FOLDER/1.jpg ...                          no classes

Tables are those of Hugging Face's image folders; without a column ``label`` there are no classes.
Classes are sorted by name, with numbers in names in numeric order: 0, 1, 2, 10.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

import attrs
from elbowroom import ElbowroomError

from .files import reading
from .images import ENDINGS

_TABLES = ("metadata.csv", "metadata.jsonl")


@attrs.frozen
class FolderOfImages:
    """A folder of images with its classes."""

    path: Path
    classes: tuple[str, ...] | None  # None: no labels
    table: Mapping[str, str] | None  # file -> class, if there is a table

    @classmethod
    def look(cls, path: Path) -> FolderOfImages:
        """Read the folder's names and table, without opening an image."""
        file = table_file(path)
        table = None if file is None else _read_table(file)
        if table is not None:
            return cls(path, tuple(sorted(set(table.values()), key=natural)), table)
        return cls(path, _sub_folders(path), None)

    def images(self, classes: Sequence[str] | None) -> Iterator[tuple[Path, int]]:
        """Every image and its label among ``classes``, in a fixed order."""
        if classes is None:
            yield from ((path, 0) for path in _image_files(self.path))
        elif self.table is not None:
            yield from self._in_table({name: k for k, name in enumerate(classes)})
        else:
            for label, name in enumerate(classes):
                if (self.path / name).is_dir():  # a test set need not have every class
                    yield from ((path, label) for path in _image_files(self.path / name))

    def _in_table(self, labels: Mapping[str, int]) -> Iterator[tuple[Path, int]]:
        table, found = self.table or {}, 0
        for path in _image_files(self.path):
            name = path.relative_to(self.path).as_posix()
            if name not in table:
                raise ElbowroomError(f"{table_file(self.path)} has no line for {name}")
            found += 1
            yield path, labels[table[name]]
        if found < len(table):
            gone = next(name for name in table if not (self.path / name).is_file())
            raise ElbowroomError(
                f"{table_file(self.path)} names {gone}, which is not an image there"
            )


def natural(name: str) -> tuple[list[str | int], str]:
    """Sort key for names, with numbers in numeric order."""
    parts = re.split(r"([0-9]+)", name)  # text, number, text, ...
    return [int(part) if k % 2 else part for k, part in enumerate(parts)], name


def sub_folders(folder: Path) -> list[Path]:
    """The folders in a folder, without hidden ones."""
    entries = sorted(folder.iterdir(), key=lambda entry: natural(entry.name))
    return [entry for entry in entries if entry.is_dir() and not entry.name.startswith(".")]


def table_file(folder: Path) -> Path | None:
    """The table of a folder, if it has one."""
    found = [folder / name for name in _TABLES if (folder / name).is_file()]
    if len(found) > 1:
        raise ElbowroomError(f"{folder} has both {' and '.join(_TABLES)}: remove one of them")
    return found[0] if found else None


def _sub_folders(folder: Path) -> tuple[str, ...] | None:
    """The class names of a folder; None if it has images directly."""
    names = tuple(entry.name for entry in sub_folders(folder))
    loose = next((entry for entry in sorted(folder.iterdir()) if _is_image(entry)), None)
    if names and loose:
        raise ElbowroomError(
            f"{folder} has both sub-folders ({names[0]}, ...) and images ({loose.name}, ...): "
            "put every image into the sub-folder of its class, all into one folder, or list their "
            f"classes in {folder / 'metadata.csv'} (columns file_name and label)"
        )
    return names or None


def _read_table(file: Path) -> dict[str, str] | None:
    """file -> class; None if the table has no column ``label``."""
    rows = _csv_rows(file) if file.suffix == ".csv" else _json_rows(file)
    table: dict[str, str] = {}
    with reading(file):
        for line, row in rows:
            name = _inside(row.get("file_name"), file, line)
            if "label" not in row and not table:
                return None
            label = row.get("label")
            if isinstance(label, bool) or not isinstance(label, str | int) or label == "":
                raise ElbowroomError(f"{file} line {line}: label {label!r} is not a class")
            if name in table:
                raise ElbowroomError(f"{file} line {line}: {name} is listed twice")
            table[name] = str(label)
    if not table:
        raise ElbowroomError(f"{file} has no lines")
    return table


def _csv_rows(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with file.open(encoding="utf-8-sig", newline="") as opened:
        rows = csv.DictReader(opened, strict=True)
        try:
            for row in rows:
                yield rows.line_num, row
        except csv.Error as error:
            raise ElbowroomError(f"{file} line {rows.line_num}: {error}") from error


def _json_rows(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with file.open(encoding="utf-8") as opened:
        for line, text in enumerate(opened, 1):
            if not text.strip():
                continue
            try:
                row = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise ElbowroomError(f"{file} line {line} is not JSON: {error}") from error
            if not isinstance(row, dict):
                raise ElbowroomError(f"{file} line {line} is not a JSON object")
            yield line, row


def _inside(name: Any, file: Path, line: int) -> str:
    """A table's ``file_name``, which must lie in the table's folder or below."""
    if not isinstance(name, str) or not name:
        raise ElbowroomError(f"{file} line {line}: no file_name")
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ElbowroomError(f"{file} line {line}: {name} is outside of {file.parent}")
    return path.as_posix()


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in ENDINGS and not path.name.startswith(".")


def _image_files(folder: Path) -> Iterator[Path]:
    """All images in and below a folder, in a fixed order; pipes and devices are ignored."""
    for place, below, names in os.walk(folder, onerror=_unreadable):
        below[:] = sorted(name for name in below if not name.startswith("."))
        paths = (Path(place, name) for name in sorted(names) if _is_image(Path(name)))
        yield from (path for path in paths if path.is_file() or not path.exists())


def _unreadable(error: OSError) -> NoReturn:
    raise ElbowroomError(f"cannot read {error.filename}: {error.strerror}") from error

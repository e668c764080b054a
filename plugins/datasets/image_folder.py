"""``image-folder``: pictures of one's own, of any size, a sub-folder for each class.

    DIR/cat/1.jpg, DIR/dog/2.png ...                      classes; validation and test are carved
    DIR/train/cat/1.jpg ... DIR/test/dog/2.png ...        the splits are as the folders say
                                                          (train, validation or val, test)
    DIR/1.jpg, DIR/2.jpg ...                              no labels (also below DIR/train ...)

Pictures are cropped to the largest centred square, averaged down to ``size`` and converted once
to a file that is read at random. A folder in which a file was added, removed or changed (its
size or time of change) is converted again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import NoReturn

import attrs
import numpy as np
from attrs.validators import in_
from elbowroom.dataset import DataSpec, Split
from elbowroom.errors import ElbowroomError

from .cache import Part, Writer, converted
from .files import reading
from .pictures import ENDINGS, load_picture, picture_side
from .shrink import Shrinkable
from .splits import ArraySplit, Rows, carve

_PARTS = {"train": "train", "validation": "validation", "val": "validation", "test": "test"}
_GROUP = 256  # pictures decoded before they are written
_DECODERS = min(4, os.cpu_count() or 1)  # threads; each holds one whole picture in memory


@attrs.frozen
class _Layout:
    """What is where in the folder."""

    folders: dict[str, Path]  # part -> its folder
    classes: tuple[str, ...] | None  # None: no labels


@attrs.frozen
class _Picture:
    path: Path
    label: int


@attrs.frozen(kw_only=True, slots=False)
class ImageFolder(Shrinkable):
    """A folder of pictures. Without ``size`` they keep theirs, which must be the same for all."""

    path: Path
    channels: int = attrs.field(default=3, validator=in_((1, 3)))  # 1: grey, 3: RGB

    @property
    def full_spec(self) -> DataSpec:
        classes = self._layout.classes
        count = None if classes is None else len(classes)
        return DataSpec((self._side, self._side, self.channels), levels=256, classes=count)

    def full_split(self, name: str) -> Split:
        part, rows = self._rows[name]
        return ArraySplit(self._parts[part].images, self._parts[part].labels, rows)

    @property
    def _root(self) -> Path:
        return Path(self.path).expanduser()

    @cached_property
    def _side(self) -> int:
        """The side of the converted images."""
        if self.size is not None:
            return self.size
        first = next(self._pictures("train"))
        return picture_side(first.path)

    @cached_property
    def _layout(self) -> _Layout:
        with reading(self._root):
            return self._look(self._root)

    def _look(self, root: Path) -> _Layout:
        if not root.is_dir():
            raise ElbowroomError(
                f"image-folder: no folder {root}.\n"
                "  needed: a folder of pictures with a sub-folder for each class, or train and "
                "test folders of such\n"
                "  put it: anywhere, and say data.path=FOLDER"
            )
        parts = [entry for entry in _folders(root) if entry.name in _PARTS]
        if not (parts and len(parts) == len(_folders(root))):
            return _Layout({"train": root}, _classes(root))
        folders: dict[str, Path] = {}
        for entry in parts:
            if _PARTS[entry.name] in folders:
                raise ElbowroomError(f"{root} has both validation and val")
            folders[_PARTS[entry.name]] = entry
        if "train" not in folders:
            raise ElbowroomError(f"{root} has {', '.join(e.name for e in parts)} but no train")
        classes = _classes(folders["train"])
        for folder in folders.values():
            strangers = set(_classes(folder) or ()) - set(classes or ())
            if strangers or (_classes(folder) is None) != (classes is None):
                what = f"class {min(strangers)!r} of" if strangers else "classes of"
                raise ElbowroomError(f"{what} {folder} are not those of {folders['train']}")
        return _Layout(folders, classes)

    def _pictures(self, part: str) -> Iterator[_Picture]:
        """The picture files of a part, in one fixed order."""
        folder, classes = self._layout.folders[part], self._layout.classes
        if classes is None:
            yield from (_Picture(path, 0) for path in _picture_files(folder))
            return
        for label, name in enumerate(classes):
            if not (folder / name).is_dir():  # a test set need not have every class
                continue
            yield from (_Picture(path, label) for path in _picture_files(folder / name))

    @cached_property
    def _parts(self) -> dict[str, Part]:
        pictures = {part: list(self._pictures(part)) for part in self._layout.folders}
        for part, found in pictures.items():
            if not found:
                raise ElbowroomError(f"{self._layout.folders[part]}: no pictures")
        labelled = self._layout.classes is not None

        def write(writer: Writer) -> None:
            with ThreadPoolExecutor(_DECODERS) as pool:
                for part, found in pictures.items():
                    for start in range(0, len(found), _GROUP):
                        group = found[start : start + _GROUP]
                        images = np.stack(list(pool.map(self._load, group)))
                        labels = np.array([picture.label for picture in group])
                        writer.add(part, images, labels if labelled else None)

        stamps = (
            f"{part}\n{picture.path}\n{_stamp(picture.path)}\n{picture.label}"
            for part, found in pictures.items()
            for picture in found
        )
        shape = (self._side, self._side, self.channels)
        return converted("image-folder", stamps, shape, labelled, write)

    def _load(self, picture: _Picture) -> np.ndarray:
        if self.size is None and (side := picture_side(picture.path)) != self._side:
            raise ElbowroomError(
                f"{picture.path} is {side} pixels wide or high, others {self._side}: "
                "set data.size to bring all to one size"
            )
        return load_picture(picture.path, self._side, self.channels)

    @cached_property
    def _rows(self) -> dict[str, tuple[str, Rows]]:
        """Split -> (part, rows of it); what the folder does not have is carved out of train."""
        rows = {part: (part, np.arange(len(p.images))) for part, p in self._parts.items()}
        for missing in ("test", "validation"):
            if missing not in rows:
                train, carved = carve(rows["train"][1], self._root)
                rows["train"], rows[missing] = ("train", train), ("train", carved)
        return rows


def _folders(folder: Path) -> list[Path]:
    entries = sorted(folder.iterdir())
    return [entry for entry in entries if entry.is_dir() and not entry.name.startswith(".")]


def _classes(folder: Path) -> tuple[str, ...] | None:
    """The class names of a folder; None where it holds pictures itself."""
    names = tuple(entry.name for entry in _folders(folder))
    loose = next((entry for entry in sorted(folder.iterdir()) if _is_picture(entry)), None)
    if names and loose:
        raise ElbowroomError(
            f"{folder} has both sub-folders ({names[0]}, ...) and pictures ({loose.name}, ...): "
            "put every picture into the sub-folder of its class, or all into one folder"
        )
    return names or None


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in ENDINGS and not path.name.startswith(".")


def _picture_files(folder: Path) -> Iterator[Path]:
    """All pictures in and below a folder, in one fixed order."""
    for place, below, names in os.walk(folder, onerror=_unreadable):
        below[:] = sorted(name for name in below if not name.startswith("."))
        paths = (Path(place, name) for name in sorted(names) if _is_picture(Path(name)))
        yield from (path for path in paths if not _may_never_end(path))


def _may_never_end(path: Path) -> bool:
    """Is it a pipe or a device? A link to nothing is not: opening it says so."""
    return path.exists() and not path.is_file()


def _unreadable(error: OSError) -> NoReturn:
    raise ElbowroomError(f"cannot read {error.filename}: {error.strerror}") from error


def _stamp(path: Path) -> str:
    with reading(path):
        status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns}"

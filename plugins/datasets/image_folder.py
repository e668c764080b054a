"""``image-folder``: image files of any size, with a sub-folder for each class.

    DIR/cat/1.jpg, DIR/dog/2.png ...                      classes; validation and test are carved
    DIR/train/cat/1.jpg ... DIR/test/dog/2.png ...        splits by folder
                                                          (train, validation or val, test)
    DIR/1.jpg, DIR/2.jpg ...                              no labels (also below DIR/train ...)

Instead of sub-folders a table ``metadata.csv`` or ``metadata.jsonl`` may list the classes
(:mod:`elbowroom.plugins.datasets.folders`).

Images are cropped to the largest centred square, averaged down to ``size`` and converted once to
a file with random access. A folder is converted again if a file was added, removed or changed (by
size or modification time).

A file that cannot be read as an image is an error; with ``on_error: skip`` it is skipped, with a
warning whenever the folder is used.
"""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import compress, islice
from pathlib import Path
from typing import Literal

import attrs
import numpy as np
from attrs.validators import in_
from elbowroom import DataSpec, ElbowroomError, Split
from elbowroom.contracts import join_names

from .cache import Part, Writer, converted
from .files import reading
from .folders import FolderOfImages, sub_folders, table_file
from .images import BrokenImageError, image_side, load_image
from .shrink import Shrinkable
from .splits import ArraySplit, Rows, with_train_whole

_PARTS = {"train": "train", "validation": "validation", "val": "validation", "test": "test"}
_GROUP = 256  # images decoded at a time
_DECODERS = min(4, os.cpu_count() or 1)  # threads; each holds one image in memory


@attrs.frozen(kw_only=True, slots=False)
class Images(Shrinkable):
    """Image files in folders. Without ``size`` all must have the same size."""

    channels: int = attrs.field(default=3, validator=in_((1, 3)))  # 1: grey, 3: RGB
    enlarge: bool = False  # enlarge images smaller than ``size``
    upright: bool = True  # apply the EXIF orientation
    on_error: Literal["raise", "skip"] = "raise"  # skip: with a warning

    @property
    @abstractmethod
    def root(self) -> Path:
        """The folder."""

    @property
    def full_spec(self) -> DataSpec:
        names = self._folders["train"].classes
        count = None if names is None else len(names)
        return DataSpec((self._side, self._side, self.channels), 256, count, names)

    def full_split(self, name: str) -> Split:
        part, rows = self._rows[name]
        return ArraySplit(self._parts[part].images, self._parts[part].labels, rows)

    @cached_property
    def _side(self) -> int:
        """The side of the converted images."""
        if self.size is not None:
            return self.size
        for path, _ in self._images("train"):
            with _suggesting_skip(), suppress(*self._skipped):
                return image_side(path)
        raise ElbowroomError(f"{self._folders['train'].path}: no images")

    @property
    def _skipped(self) -> tuple[type[ElbowroomError], ...]:
        """The errors for which an image is skipped."""
        return (BrokenImageError,) if self.on_error == "skip" else ()

    @cached_property
    def _folders(self) -> dict[str, FolderOfImages]:
        """Part -> its folder."""
        with reading(self.root):
            return self._look(self.root)

    def _look(self, root: Path) -> dict[str, FolderOfImages]:
        if not root.is_dir():
            raise self.missing()
        entries = sub_folders(root)
        parts = [entry for entry in entries if entry.name in _PARTS]
        if not parts or len(parts) < len(entries):
            return {"train": FolderOfImages.look(root)}
        if table := table_file(root):
            names = join_names([part.name for part in parts], most=9)
            raise ElbowroomError(f"{table}: write a table into each of {names} instead")
        folders: dict[str, FolderOfImages] = {}
        for entry in parts:
            if _PARTS[entry.name] in folders:
                raise ElbowroomError(f"{root} has both validation and val")
            folders[_PARTS[entry.name]] = FolderOfImages.look(entry)
        if "train" not in folders:
            raise ElbowroomError(f"{root} has no folder train")
        for folder in folders.values():
            check_classes(folder, folders["train"])
        return folders

    def missing(self) -> ElbowroomError:
        """The error if there is no such folder."""
        return ElbowroomError(
            f"image-folder: no folder {self.root}.\n"
            "  needed: a folder of images with a sub-folder for each class, or train and "
            "test folders of such\n"
            "  put it: anywhere, with data.path=FOLDER"
        )

    def _images(self, part: str) -> Iterator[tuple[Path, int]]:
        """The image files of a part and their labels, in a fixed order."""
        return self._folders[part].images(self._folders["train"].classes)

    @cached_property
    def _parts(self) -> dict[str, Part]:
        for part, folder in self._folders.items():
            if next(self._images(part), None) is None:
                raise ElbowroomError(f"{folder.path}: no images")
        labelled = self._folders["train"].classes is not None

        def write(writer: Writer) -> None:
            with ThreadPoolExecutor(_DECODERS) as pool:
                for part in self._folders:
                    files = self._images(part)
                    while group := list(islice(files, _GROUP)):
                        loaded = list(pool.map(self._load_or_reason, (path for path, _ in group)))
                        writer.left_out += [one for one in loaded if isinstance(one, str)]
                        good = [not isinstance(one, str) for one in loaded]
                        if any(good):
                            images = np.stack(list(compress(loaded, good)))
                            labels = np.array(list(compress((label for _, label in group), good)))
                            writer.add(part, images, labels if labelled else None)

        shape = (self._side, self._side, self.channels)
        parts = converted("image-folder", self._stamps(), shape, labelled, write)
        self._check_left_out(parts)
        return parts

    def _load_or_reason(self, path: Path) -> np.ndarray | str:
        """The image, or why it is skipped."""
        with _suggesting_skip():
            try:
                return self._load(path)
            except self._skipped as error:
                return str(error)

    def _check_left_out(self, parts: Mapping[str, Part]) -> None:
        """Warn about skipped images; a part without any image left is an error."""
        left_out = next((part.left_out for part in parts.values()), ())
        for name, folder in self._folders.items():
            if name not in parts:
                raise ElbowroomError(f"{folder.path}: no image can be read")
        if left_out:
            warnings.warn(
                f"{self.root}: {len(left_out)} unreadable images are skipped: "
                f"{join_names(left_out, most=3)} "
                f"(all: {parts['train'].images.path.parent}/about.json)",
                stacklevel=2,
            )

    def _stamps(self) -> Iterator[str]:
        """Everything a conversion depends on."""
        for part in self._folders:
            for path, label in self._images(part):
                yield f"{part}\n{path}\n{_stamp(path)}\n{label}"
        chosen = {"enlarge": self.enlarge, "as stored": not self.upright}
        yield from (text for text, is_set in chosen.items() if is_set)
        yield from ("without broken ones" for _ in self._skipped)

    def _load(self, path: Path) -> np.ndarray:
        if self.size is None and (side := image_side(path)) != self._side:
            raise ElbowroomError(
                f"{path} is {side} pixels wide or high, others {self._side}: set data.size"
            )
        return load_image(path, self._side, self.channels, self.enlarge, self.upright)

    @cached_property
    def _rows(self) -> dict[str, tuple[str, Rows]]:
        """Split -> (part, rows of it)."""
        rows = {part: (part, np.arange(len(p.images))) for part, p in self._parts.items()}
        return with_train_whole(rows, self.root)


@contextmanager
def _suggesting_skip() -> Iterator[None]:
    """Add to the error of an unreadable image how to skip it."""
    try:
        yield
    except BrokenImageError as error:
        raise BrokenImageError(f"{error}; data.on_error=skip skips such files") from error


@attrs.frozen(kw_only=True, slots=False)
class ImageFolder(Images):
    """A folder of images. Without ``size`` all must have the same size."""

    path: Path

    @property
    def root(self) -> Path:
        return Path(self.path).expanduser()


def check_classes(folder: FolderOfImages, train: FolderOfImages) -> None:
    """Raise if a part has classes that train does not have."""
    unknown = set(folder.classes or ()) - set(train.classes or ())
    if unknown or (folder.classes is None) != (train.classes is None):
        what = f"class {min(unknown)!r} of" if unknown else "classes of"
        raise ElbowroomError(f"{what} {folder.path} are not those of {train.path}")


def _stamp(path: Path) -> str:
    with reading(path):
        status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns}"

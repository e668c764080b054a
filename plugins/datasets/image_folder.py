"""``image-folder``: pictures of one's own, of any size, a sub-folder for each class.

    DIR/cat/1.jpg, DIR/dog/2.png ...                      classes; validation and test are carved
    DIR/train/cat/1.jpg ... DIR/test/dog/2.png ...        the splits are as the folders say
                                                          (train, validation or val, test)
    DIR/1.jpg, DIR/2.jpg ...                              no labels (also below DIR/train ...)

In place of sub-folders a table ``metadata.csv`` or ``metadata.jsonl`` may say the classes
(:mod:`elbowroom.plugins.datasets.folders`).

Pictures are cropped to the largest centred square, averaged down to ``size`` and converted once
to a file that is read at random. A folder in which a file was added, removed or changed (its
size or time of change) is converted again.

A file that cannot be read as a picture is an error, or with ``on_error: skip`` left out: how many
and which is said whenever the folder is used, never once only.
"""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Literal

import attrs
import numpy as np
from attrs.validators import in_
from elbowroom import DataSpec, ElbowroomError, Split
from elbowroom.contracts import join_names

from .cache import Part, Writer, converted
from .files import reading
from .folders import PictureFolder, sub_folders, table_file
from .pictures import BrokenPictureError, load_picture, picture_side
from .shrink import Shrinkable
from .splits import ArraySplit, Rows, with_train_whole

_PARTS = {"train": "train", "validation": "validation", "val": "validation", "test": "test"}
_GROUP = 256  # pictures decoded before they are written
_DECODERS = min(4, os.cpu_count() or 1)  # threads; each holds one whole picture in memory


@attrs.frozen(kw_only=True, slots=False)
class Pictures(Shrinkable):
    """Pictures in folders. Without ``size`` they keep theirs, which must be the same for all."""

    channels: int = attrs.field(default=3, validator=in_((1, 3)))  # 1: grey, 3: RGB
    enlarge: bool = False  # bring smaller pictures to ``size`` too, rather than refuse them
    upright: bool = True  # turn pictures as the camera's mark says
    on_error: Literal["raise", "skip"] = "raise"  # skip: leave broken pictures out, and say so

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
        for path, _ in self._pictures("train"):
            with _with_a_way_out(), suppress(*self._passed_over):
                return picture_side(path)
        raise ElbowroomError(f"{self._folders['train'].path}: no pictures")

    @property
    def _passed_over(self) -> tuple[type[ElbowroomError], ...]:
        """What is wrong with a picture that is left out."""
        chosen: dict[str, tuple[type[ElbowroomError], ...]]
        chosen = {"raise": (), "skip": (BrokenPictureError,)}
        return chosen[self.on_error]

    @cached_property
    def _folders(self) -> dict[str, PictureFolder]:
        """Part -> what is there."""
        with reading(self.root):
            return self._look(self.root)

    def _look(self, root: Path) -> dict[str, PictureFolder]:
        if not root.is_dir():
            raise self.missing()
        entries = sub_folders(root)
        parts = [entry for entry in entries if entry.name in _PARTS]
        if not parts or len(parts) < len(entries):
            return {"train": PictureFolder.look(root)}
        if table := table_file(root):
            raise ElbowroomError(f"{table}: write a table into each of {_listed(parts)} instead")
        folders: dict[str, PictureFolder] = {}
        for entry in parts:
            if _PARTS[entry.name] in folders:
                raise ElbowroomError(f"{root} has both validation and val")
            folders[_PARTS[entry.name]] = PictureFolder.look(entry)
        if "train" not in folders:
            raise ElbowroomError(f"{root} has {_listed(parts)} but no train")
        for folder in folders.values():
            check_classes(folder, folders["train"])
        return folders

    def missing(self) -> ElbowroomError:
        """What is said where there is no such folder."""
        return ElbowroomError(
            f"image-folder: no folder {self.root}.\n"
            "  needed: a folder of pictures with a sub-folder for each class, or train and "
            "test folders of such\n"
            "  put it: anywhere, and say data.path=FOLDER"
        )

    def _pictures(self, part: str) -> Iterator[tuple[Path, int]]:
        """The picture files of a part and their labels, in one fixed order."""
        return self._folders[part].pictures(self._folders["train"].classes)

    @cached_property
    def _parts(self) -> dict[str, Part]:
        for part, folder in self._folders.items():
            if next(self._pictures(part), None) is None:
                raise ElbowroomError(f"{folder.path}: no pictures")
        labelled = self._folders["train"].classes is not None

        def write(writer: Writer) -> None:
            with ThreadPoolExecutor(_DECODERS) as pool:
                for part in self._folders:
                    pictures = self._pictures(part)
                    while group := list(islice(pictures, _GROUP)):
                        loaded = list(pool.map(self._load_or_say, (path for path, _ in group)))
                        writer.left_out += [one for one in loaded if isinstance(one, str)]
                        whole = [
                            (image, label)
                            for image, (_, label) in zip(loaded, group, strict=True)
                            if not isinstance(image, str)
                        ]
                        if whole:
                            labels = np.array([label for _, label in whole])
                            images = np.stack([image for image, _ in whole])
                            writer.add(part, images, labels if labelled else None)

        shape = (self._side, self._side, self.channels)
        parts = converted("image-folder", self._stamps(), shape, labelled, write)
        self._check_left_out(parts)
        return parts

    def _load_or_say(self, path: Path) -> np.ndarray | str:
        """The picture, or why it is left out."""
        with _with_a_way_out():
            try:
                return self._load(path)
            except self._passed_over as error:
                return str(error)

    def _check_left_out(self, parts: Mapping[str, Part]) -> None:
        """Say what was left out; a part of which nothing is left is an error."""
        left_out = next((part.left_out for part in parts.values()), ())
        for name, folder in self._folders.items():
            if name not in parts:
                raise ElbowroomError(f"{folder.path}: no picture there can be read")
        if left_out:
            warnings.warn(
                f"{self.root}: {len(left_out)} broken pictures are left out: "
                f"{join_names(left_out, most=3)} "
                f"(all: {parts['train'].images.path.parent}/about.json)",
                stacklevel=2,
            )

    def _stamps(self) -> Iterator[str]:
        """Everything a conversion depends on, one by one."""
        for part in self._folders:
            for path, label in self._pictures(part):
                yield f"{part}\n{path}\n{_stamp(path)}\n{label}"
        yield from (word for word in ("enlarge",) if self.enlarge)
        yield from (word for word in ("as stored",) if not self.upright)
        yield from ("without broken ones" for _ in self._passed_over)

    def _load(self, path: Path) -> np.ndarray:
        if self.size is None and (side := picture_side(path)) != self._side:
            raise ElbowroomError(
                f"{path} is {side} pixels wide or high, others {self._side}: "
                "set data.size to bring all to one size"
            )
        return load_picture(path, self._side, self.channels, self.enlarge, self.upright)

    @cached_property
    def _rows(self) -> dict[str, tuple[str, Rows]]:
        """Split -> (part, rows of it)."""
        rows = {part: (part, np.arange(len(p.images))) for part, p in self._parts.items()}
        return with_train_whole(rows, self.root)


@contextmanager
def _with_a_way_out() -> Iterator[None]:
    """Tell whom a broken picture stops how to go on without it."""
    try:
        yield
    except BrokenPictureError as error:
        words = f"{error}; data.on_error=skip leaves such files out"
        raise BrokenPictureError(words) from error


@attrs.frozen(kw_only=True, slots=False)
class ImageFolder(Pictures):
    """A folder of pictures. Without ``size`` they keep theirs, which must be the same for all."""

    path: Path

    @property
    def root(self) -> Path:
        return Path(self.path).expanduser()


def check_classes(folder: PictureFolder, train: PictureFolder) -> None:
    """A part has no class that train has not."""
    strangers = set(folder.classes or ()) - set(train.classes or ())
    if strangers or (folder.classes is None) != (train.classes is None):
        what = f"class {min(strangers)!r} of" if strangers else "classes of"
        raise ElbowroomError(f"{what} {folder.path} are not those of {train.path}")


def _listed(folders: list[Path]) -> str:
    return ", ".join(folder.name for folder in folders)


def _stamp(path: Path) -> str:
    with reading(path):
        status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns}"

"""``imagenet64``: 1.28 million photographs of 64x64 pixels in 1000 classes.

The official downsampled batches (Chrabaszcz, Loshchilov & Hutter 2017): ``train_data_batch_1``
to ``_10`` and ``val_data`` as ``.npz``, with ``data`` uint8 [N, 12288], channel-major, and
``labels`` from 1 to 1000. ImageNet's test labels are not public: as usual, its validation images
are the test split here, and validation is carved out of train.

The batches are converted once to a file with random access, in a few megabytes of memory.
"""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path

import attrs
import numpy as np
from elbowroom import DataSpec, ElbowroomError

from .cache import DiskArray, Part, Writer, converted
from .files import Recipe, check_labels, places, reading
from .npz import NpzArray
from .shrink import TrainAndTest

_SIDE = 64
_ROWS = 512  # converted at a time: 6 MB
_RECIPE = Recipe(
    "imagenet64",
    "train_data_batch_1.npz .. train_data_batch_10.npz and val_data.npz",
    "'Download downsampled image data (64x64)', npz format, of "
    "https://image-net.org/download-images (free account), unpacked with unzip",
)


@attrs.frozen(kw_only=True, slots=False)
class ImageNet64(TrainAndTest):
    """Downsampled ImageNet; test is its official validation set, validation is 10,000 of train."""

    @property
    def full_spec(self) -> DataSpec:
        return DataSpec((_SIDE, _SIDE, 3), levels=256, classes=1000)

    def read_part(self, part: str) -> tuple[DiskArray, DiskArray | None]:
        return self._parts[part].images, self._parts[part].labels

    @cached_property
    def _parts(self) -> dict[str, Part]:
        files = self._find()

        def write(writer: Writer) -> None:
            for part, paths in files.items():
                for path in paths:
                    _convert_batch(path, part, writer)

        stamps = [
            f"{part} {path.resolve()} {path.stat().st_size} {path.stat().st_mtime_ns}"
            for part, paths in files.items()
            for path in paths
        ]
        return converted("imagenet64", stamps, self.full_spec.shape, True, write)

    def _find(self) -> dict[str, list[Path]]:
        folders = places("imagenet64", self.path)
        for folder in folders:
            with reading(folder):
                train = _numbered(folder)
                test = folder / "val_data.npz"
                if train and test.exists():
                    return {"train": train, "test": [test]}
        raise _RECIPE.missing(folders)


def _numbered(folder: Path) -> list[Path]:
    """The train batches in the order of their numbers, which must have no gap."""
    found: dict[int, Path] = {}
    for path in folder.glob("train_data_batch_*.npz"):
        if match := re.fullmatch(r"train_data_batch_(\d+)\.npz", path.name):
            found[int(match[1])] = path
    missing = sorted(set(range(1, max(found, default=0) + 1)) - found.keys())
    if missing:
        raise ElbowroomError(
            f"{folder}: train_data_batch_{missing[0]}.npz is missing, but later batches are there"
        )
    return [found[number] for number in sorted(found)]


def _convert_batch(path: Path, part: str, writer: Writer) -> None:
    data, given = NpzArray(path, "data"), NpzArray(path, "labels")
    width = 3 * _SIDE**2
    if len(data.shape) != 2 or data.shape[1] != width or data.dtype != np.uint8:
        raise ElbowroomError(
            f"{path}: 'data' is {data.dtype} {list(data.shape)}, expected uint8 [N, {width}]"
        )
    if not data.shape[0] or given.shape != data.shape[:1]:
        raise ElbowroomError(
            f"{path}: labels of shape {list(given.shape)} for {data.shape[0]} images"
        )
    labels = given.labels()
    if not labels.min() >= 1:
        raise ElbowroomError(f"{path}: label {labels.min()}; its labels count from 1 to 1000")
    check_labels(int(labels.min()) - 1, int(labels.max()) - 1, 1000, path)
    start = 0
    for piece in data.pieces(_ROWS):
        images = piece.reshape(-1, 3, _SIDE, _SIDE).transpose(0, 2, 3, 1)
        writer.add(part, images, labels[start : start + len(piece)] - 1)
        start += len(piece)

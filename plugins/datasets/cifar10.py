"""``cifar10``: 60,000 photographs of 32x32 pixels in ten classes (Krizhevsky 2009).

Two formats, both with the 10,000 official test images:

    binary batches   data_batch_1.bin .. 5 and test_batch.bin: a label byte, then 3072 channel-major
    one npz          cifar10.npz with x_train, y_train, x_test, y_test
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import numpy as np
from elbowroom import DataSpec, ElbowroomError
from numpy.typing import NDArray

from .files import Recipe, check_labels, places, reading
from .npz import NpzArray
from .shrink import TrainAndTest

Pair = tuple[NDArray[Any], NDArray[Any]]

_RECIPE = Recipe(
    "cifar10",
    "data_batch_1.bin .. data_batch_5.bin and test_batch.bin (the binary version), or cifar10.npz "
    "with x_train, y_train, x_test, y_test",
    "cifar-10-binary.tar.gz of https://www.cs.toronto.edu/~kriz/cifar.html, unpacked with tar xf",
)
_SUBFOLDERS = ("", "cifar-10-batches-bin")
_NAMES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
_BATCHES = {"train": [f"data_batch_{i}.bin" for i in range(1, 6)], "test": ["test_batch.bin"]}


@attrs.frozen(kw_only=True, slots=False)
class Cifar10(TrainAndTest):
    """CIFAR-10; test is the official one, validation a tenth of train.

    ``path`` is the folder or the npz file.
    """

    @property
    def full_spec(self) -> DataSpec:
        return DataSpec((32, 32, 3), levels=256, classes=10, names=_NAMES)

    def read_part(self, part: str) -> Pair:
        folders = places("cifar10", self.path)
        for folder in folders:
            with reading(folder):
                if (found := _read_folder(folder, part)) is not None:
                    return found
        raise _RECIPE.missing(folders)


def _read_folder(folder: Path, part: str) -> Pair | None:
    """A part in whichever format the folder has; None if in none."""
    if folder.is_file():
        return _read_npz(folder, part)
    if (folder / "cifar10.npz").exists():
        return _read_npz(folder / "cifar10.npz", part)
    for sub in _SUBFOLDERS:
        paths = [folder / sub / name for name in _BATCHES[part]]
        if any(path.exists() for path in paths):
            images, labels = zip(*map(_read_binary, paths), strict=True)
            return np.concatenate(images), np.concatenate(labels)
    return None


def _read_binary(path: Path) -> Pair:
    with reading(path):
        data = np.frombuffer(path.read_bytes(), np.uint8)
    if not len(data) or len(data) % 3073:
        raise ElbowroomError(f"{path}: {len(data)} bytes are not whole records of 3073 bytes")
    records = data.reshape(-1, 3073)
    return _checked(records[:, 1:], records[:, 0].astype(np.int64), path)


def _read_npz(path: Path, part: str) -> Pair:
    images, labels = NpzArray(path, f"x_{part}"), NpzArray(path, f"y_{part}")
    if images.shape[0] != labels.shape[0]:  # before they are read
        raise ElbowroomError(f"{path}: {labels.shape[0]} labels for {images.shape[0]} images")
    return _checked(images.whole(), labels.labels(), path)


def _checked(images: NDArray[Any], labels: NDArray[np.int64], path: Path) -> Pair:
    """Images as [N, 32, 32, 3], from any of the three usual layouts."""
    if images.dtype != np.uint8:
        raise ElbowroomError(f"{path}: images are {images.dtype}, expected uint8")
    if images.shape[1:] == (3072,):
        images = images.reshape(-1, 3, 32, 32)
    if images.shape[1:] == (3, 32, 32):
        images = images.transpose(0, 2, 3, 1)
    if images.shape[1:] != (32, 32, 3) or not len(images):
        raise ElbowroomError(
            f"{path}: images of shape {images.shape}, expected [N, 3072], [N, 3, 32, 32] "
            "or [N, 32, 32, 3]"
        )
    if len(labels) != len(images):
        raise ElbowroomError(f"{path}: {len(labels)} labels for {len(images)} images")
    check_labels(int(labels.min()), int(labels.max()), 10, path)
    return np.ascontiguousarray(images), labels

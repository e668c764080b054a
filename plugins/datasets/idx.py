"""The idx format of MNIST and similar data sets.

    bytes 0-1   zero
    byte  2     element type (0x08: unsigned byte, the only one used for images and labels)
    byte  3     number of dimensions n
    4n bytes    the dimensions, big-endian
    the rest    the elements, last dimension fastest

Plain or gzipped; gzip is recognised by its first bytes, not by the name.
"""

from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import IO, Any, ClassVar, cast

import attrs
import numpy as np
from elbowroom import DataSpec, ElbowroomError
from numpy.typing import NDArray

from .files import Recipe, check_labels, places, reading
from .shrink import TrainAndTest

_CHUNK = 1 << 20
FILES = (
    "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, "
    "t10k-labels-idx1-ubyte, each plain or .gz"
)
_STEMS = {
    "train": ("train-images{}idx3-ubyte", "train-labels{}idx1-ubyte"),
    "test": ("t10k-images{}idx3-ubyte", "t10k-labels{}idx1-ubyte"),
}


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array in an idx file of unsigned bytes, plain or gzipped."""
    with reading(path), path.open("rb") as raw:
        zipped = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        stream = cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if zipped else raw
        head = stream.read(4)
        if len(head) < 4 or head[:2] != b"\0\0":
            raise ElbowroomError(
                f"{path} is not an idx file: it begins with {head.hex() or 'nothing'}"
            )
        if head[2] != 0x08:
            raise ElbowroomError(
                f"{path}: element type 0x{head[2]:02x}; only bytes (0x08) are supported"
            )
        sizes = stream.read(4 * head[3])
        if not head[3] or len(sizes) < 4 * head[3]:
            raise ElbowroomError(f"{path} is truncated in its header")
        shape = tuple(int(n) for n in np.frombuffer(sizes, ">u4"))
        count = math.prod(shape)
        # In pieces, so that a header that claims too much costs no more memory than the file.
        data = bytearray()
        while len(data) <= count and (piece := stream.read(min(_CHUNK, count + 1 - len(data)))):
            data += piece
        if len(data) != count:
            found = f"only {len(data)}" if len(data) < count else "more"
            raise ElbowroomError(f"{path}: {found} bytes of data, its header {shape} needs {count}")
        return np.frombuffer(data, np.uint8).reshape(shape)


@attrs.frozen(kw_only=True, slots=False)
class IdxImages(TrainAndTest):
    """Grey images of 28x28 and labels of ten classes, in four idx files."""

    class_names: ClassVar[tuple[str, ...] | None] = None
    """Names of the classes, if they are not numbers."""

    recipe: ClassVar[Recipe]
    usual: ClassVar[tuple[Path, ...]] = ()
    """Other default folders."""

    @property
    def full_spec(self) -> DataSpec:
        return DataSpec((28, 28, 1), levels=256, classes=10, names=self.class_names)

    def read_part(self, part: str) -> tuple[NDArray[Any], NDArray[Any]]:
        image_path, label_path = (self._find(stem) for stem in _STEMS[part])
        images, labels = read_idx(image_path), read_idx(label_path)
        if images.shape[1:] != (28, 28):
            raise ElbowroomError(f"{image_path}: shape {images.shape}, expected [N, 28, 28]")
        if labels.shape != (len(images),):
            raise ElbowroomError(
                f"{label_path}: shape {labels.shape}, expected one label for each of the "
                f"{len(images)} images in {image_path.name}"
            )
        if not len(images):
            raise ElbowroomError(f"{image_path}: no images")
        check_labels(int(labels.min()), int(labels.max()), 10, label_path)
        return images[..., None], labels

    def _find(self, stem: str) -> Path:
        folders = places(self.recipe.name, self.path, *self.usual)
        for folder in folders:
            for dash in "-.":
                for ending in ("", ".gz"):
                    path = folder / (stem.format(dash) + ending)
                    with reading(path):
                        if path.exists():
                            return path
        raise self.recipe.missing(folders)

"""The reverse process of a few samples as one image with the frames side by side.

A web page shows the frames by moving a window over the image, without a video or a file per frame.
Pixels are those of the data; the page enlarges them.
"""

from __future__ import annotations

import io
import math
from pathlib import Path

import attrs
import torch
from elbowroom import DataSpec, Process
from elbowroom.files import write_atomically
from torch import Tensor

from .recorder import Recorder

_AREA = 24_000  # pixels per frame, approximately
_LARGEST_COUNT = 40  # samples
_BORDER = 24  # grey


@attrs.frozen(eq=False)
class Sheet:
    """A finished film strip."""

    picture: Tensor  # uint8 [H, W * frames, 3]
    frames: int
    steps: list[int]  # of each frame


class Filmstrip:
    """Records frames and joins at most ``limit`` of them."""

    def __init__(self, process: Process, limit: int = 33) -> None:
        self._data = process.data
        self.columns, self.rows = _layout(process.data)
        self._recorder = Recorder(process, self.count, limit - 1)  # plus the last frame
        self.show = self._recorder.show

    @property
    def count(self) -> int:
        """The number of samples."""
        return self.columns * self.rows

    def class_names(self) -> list[list[str]] | None:
        """Class names of the samples, row by row; None for data without classes."""
        data = self._data
        if data.classes is None:
            return None
        names = [data.class_name(k % data.classes) for k in range(self.count)]
        return [names[k : k + self.columns] for k in range(0, self.count, self.columns)]

    def sheet(self) -> Sheet:
        """Join all frames; the last shows the finished samples."""
        frames = self._recorder.frames()
        picture = torch.cat([self.side_by_side(painted) for _, painted in frames], dim=1)
        return Sheet(picture, len(frames), [step for step, _ in frames])

    def side_by_side(self, painted: Tensor) -> Tensor:
        """Join images [B, H, W, 3] into one, without enlarging them."""
        _, height, width, _ = painted.shape
        columns = self.columns
        size = (self.rows * (height + 1) + 1, columns * (width + 1) + 1, 3)
        sheet = torch.full(size, _BORDER, dtype=torch.uint8)
        for k, one in enumerate(painted):
            top, left = 1 + k // columns * (height + 1), 1 + k % columns * (width + 1)
            sheet[top : top + height, left : left + width] = one
        return sheet


def _layout(data: DataSpec) -> tuple[int, int]:
    """(columns, rows): a column per class for few classes, else nearly square."""
    height, width, _ = data.shape
    count = max(4, min(_LARGEST_COUNT, _AREA // ((height + 1) * (width + 1))))
    columns = math.isqrt(count)
    if data.classes is not None and 4 <= data.classes <= min(count, 12):
        columns = data.classes
    return columns, count // columns


def save_small_png(picture: Tensor, path: Path) -> None:
    """Write uint8 [H, W, 3], with a palette if that is lossless."""
    from PIL import Image

    image = Image.fromarray(picture.numpy())
    colours = image.getcolors(256)
    if colours is not None:
        image = image.quantize(len(colours), dither=Image.Dither.NONE)
    content = io.BytesIO()
    image.save(content, format="PNG", optimize=True)
    write_atomically(path, content.getvalue())

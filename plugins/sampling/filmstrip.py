"""The way of a few samples from noise to data, as one picture: frames beside each other.

A page can then scrub through the reverse process by moving a window over the picture, without a
video and without a file for each frame. Pixels are the data's own; a page enlarges them.
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

_AREA = 24_000  # pixels a frame may have, nearly
_MOST = 40  # samples
_BETWEEN = 24  # the grey between pictures


@attrs.frozen(eq=False)
class Sheet:
    """A finished reel."""

    picture: Tensor  # uint8 [H, W * frames, 3]
    frames: int
    steps: list[int]  # grid intervals behind each frame


class Filmstrip:
    """Takes frames as they pass, and puts at most ``limit`` of them side by side."""

    def __init__(self, process: Process, limit: int = 33) -> None:
        self._data = process.data
        self.columns, self.rows = _arranged(process.data)
        self._recorder = Recorder(process, self.count, limit - 1)  # and the last one
        self.show = self._recorder.show

    @property
    def count(self) -> int:
        """How many samples are shown."""
        return self.columns * self.rows

    def class_names(self) -> list[list[str]] | None:
        """What is shown, row by row, with every class in turn; None where there are no classes."""
        data = self._data
        if data.classes is None:
            return None
        turn = [data.class_name(k % data.classes) for k in range(self.count)]
        return [turn[k : k + self.columns] for k in range(0, self.count, self.columns)]

    def sheet(self) -> Sheet:
        """All frames beside each other; the last is the finished samples."""
        frames = self._recorder.frames()
        picture = torch.cat([self.side_by_side(painted) for _, painted in frames], dim=1)
        return Sheet(picture, len(frames), [step for step, _ in frames])

    def side_by_side(self, painted: Tensor) -> Tensor:
        """Pictures [B, H, W, 3] as one, in the data's own pixels."""
        _, height, width, _ = painted.shape
        columns = self.columns
        size = (self.rows * (height + 1) + 1, columns * (width + 1) + 1, 3)
        sheet = torch.full(size, _BETWEEN, dtype=torch.uint8)
        for k, one in enumerate(painted):
            top, left = 1 + k // columns * (height + 1), 1 + k % columns * (width + 1)
            sheet[top : top + height, left : left + width] = one
        return sheet


def _arranged(data: DataSpec) -> tuple[int, int]:
    """(columns, rows): a column for each class where these are few, else nearly square."""
    height, width, _ = data.shape
    count = max(4, min(_MOST, _AREA // ((height + 1) * (width + 1))))
    columns = math.isqrt(count)
    if data.classes is not None and 4 <= data.classes <= min(count, 12):
        columns = data.classes
    return columns, count // columns


def save_small_png(picture: Tensor, path: Path) -> None:
    """Write uint8 [H, W, 3], as grey or with a palette where that loses nothing."""
    from PIL import Image

    image = Image.fromarray(picture.numpy())
    colours = image.getcolors(256)
    if colours is not None:
        image = image.quantize(len(colours), dither=Image.Dither.NONE)
    content = io.BytesIO()
    image.save(content, format="PNG", optimize=True)
    write_atomically(path, content.getvalue())

"""The path of a few samples from noise to data, kept as it passes: for a GIF or a film strip.

Never more than ``limit`` frames are kept. When there are too many, every second one is dropped and
from then on only every second one is taken, and so on: what is kept is spread evenly over a path
whose length nobody knew.
"""

from __future__ import annotations

import torch
from elbowroom import Frame, Level, Noise, Process
from torch import Tensor

from .picture import has_picture, pixels


class Recorder:
    """Keeps the first ``count`` samples of frames as they are shown."""

    def __init__(self, process: Process, count: int, limit: int) -> None:
        if limit < 2:
            raise ValueError(f"a path is shown by at least 2 frames, not {limit}")
        self._process, self.count, self._limit = process, count, limit
        self._every, self._seen = 1, 0
        self._kept: list[tuple[int, Tensor]] = []
        self._last: tuple[int, Tensor] | None = None

    def show(self, frame: Frame) -> None:
        """Take a frame in; a frame that will not be kept is not painted."""
        if frame.x is not None:
            self._last = (frame.step, self._painted(frame.x[: self.count]))
            return
        if self._seen % self._every == 0:
            if len(self._kept) == self._limit:
                self._kept, self._every = self._kept[::2], 2 * self._every
            if self._seen % self._every == 0:
                z = self._decoded(frame.z[: self.count])
                self._kept.append((frame.step, self._painted(z)))
        self._seen += 1

    def frames(self) -> list[tuple[int, Tensor]]:
        """(grid intervals behind it, uint8 [count, H, W, 3]) of each; the last is finished."""
        assert self._last is not None, "the path has not ended"
        return [*self._kept, self._last]

    def _painted(self, x: Tensor) -> Tensor:
        data = self._process.data
        return pixels(x, data.levels) if has_picture(data.shape) else x.to("cpu", torch.int32)

    def _decoded(self, z: Tensor) -> Tensor:
        """As if it were data already: noise looks like noise, hidden tokens stay hidden."""
        clear = Level.at(torch.full((), torch.inf, dtype=torch.float64), self._process)
        noise = Noise.of(0, len(z), device=z.device)
        return self._process.decode(z, None, clear.over(z, torch.float32), noise)

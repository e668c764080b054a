"""Records frames of the reverse process of a few samples, for a GIF or a film strip.

At most ``limit`` frames are kept. When there are more, every second one is dropped, and from then
on only every second one is recorded, and so on: the frames are evenly spaced for trajectories of
any length.
"""

from __future__ import annotations

import torch
from elbowroom import Frame, Level, Noise, Process
from torch import Tensor

from .picture import has_picture, pixels


class Recorder:
    """Records the first ``count`` samples of frames."""

    def __init__(self, process: Process, count: int, limit: int) -> None:
        if limit < 2:
            raise ValueError(f"limit must be at least 2 frames, not {limit}")
        self._process, self.count, self._limit = process, count, limit
        self._every, self._seen = 1, 0
        self._kept: list[tuple[int, Tensor]] = []
        self._last: tuple[int, Tensor] | None = None

    def show(self, frame: Frame) -> None:
        """Record a frame. A frame that is not kept is not rendered."""
        if frame.x is not None:
            self._last = (frame.step, self._rendered(frame.x[: self.count]))
            return
        if self._seen % self._every == 0:
            if len(self._kept) == self._limit:
                self._kept, self._every = self._kept[::2], 2 * self._every
            if self._seen % self._every == 0:
                z = self._decoded(frame.z[: self.count])
                self._kept.append((frame.step, self._rendered(z)))
        self._seen += 1

    def frames(self) -> list[tuple[int, Tensor]]:
        """Return (step, uint8 [count, H, W, 3]) of each frame; the last shows the samples."""
        assert self._last is not None, "no final frame"
        return [*self._kept, self._last]

    def _rendered(self, x: Tensor) -> Tensor:
        data = self._process.data
        return pixels(x, data.levels) if has_picture(data.shape) else x.to("cpu", torch.int32)

    def _decoded(self, z: Tensor) -> Tensor:
        """Decode z as if it were clean: noise stays visible, masked tokens stay masked."""
        clean = Level.at(torch.full((), torch.inf, dtype=torch.float64), self._process)
        noise = Noise.of(0, len(z), device=z.device)
        return self._process.decode(z, None, clean.over(z, torch.float32), noise)

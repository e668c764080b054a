"""The path of a few samples from noise to data, as an animation."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from ..contracts.level import Level
from ..contracts.sampler import Frame
from ..objective.diffusion import Diffusion
from ..randomness.noise import Noise
from .picture import Animation, pixels, tiled

_SHOWN = 64  # pictures in the animation


class Film:
    """The path of the first samples as an animation, drawn as its frames pass."""

    def __init__(self, model: Diffusion, limit: int = 48) -> None:
        self._process = model.process
        self._animation = Animation(limit)
        self._last: Tensor | None = None

    def show(self, frame: Frame) -> None:
        """Take a frame in."""
        if frame.x is not None:
            self._last = tiled(pixels(frame.x[:_SHOWN], self._process.data.levels))
        elif self._animation.wants_next():
            self._animation.add(self._picture(frame.z[:_SHOWN]))
        else:
            self._animation.skip()

    def _picture(self, z: Tensor) -> Tensor:
        # decoded as if it were data already: noise looks like noise, hidden tokens stay hidden
        clear = Level.at(torch.full((), torch.inf, dtype=torch.float64), self._process)
        noise = Noise.of(0, len(z), device=z.device)
        seen = self._process.decode(z, None, clear.over(z, torch.float32), noise)
        return tiled(pixels(seen, self._process.data.levels))

    def save(self, path: Path) -> Path:
        """Write the GIF of a finished path."""
        assert self._last is not None, "the path has not ended"
        return self._animation.save(path, self._last)

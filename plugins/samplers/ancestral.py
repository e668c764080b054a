"""Ancestral sampling, event-driven: z_s ~ p(z_s | z_t), without calls in steps that change nothing.

``Process.active_steps`` gives the steps that can change a sample. In masked diffusion these are
the steps in which a token is unmasked, and they do not depend on the network. Each sample takes
its active steps only and leaves the batch when finished; samples at different steps share a call.
With ``skip: false`` every step is taken: the samples are the same, with more calls.

``clip`` clips the predicted data to the data's range before each step, as in DDPM and IDDPM. It
has no effect on a categorical process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import attrs
import torch
from elbowroom import Frame, Level, Model, Noise, Sampler, Step, Trajectory
from torch import Tensor


@attrs.frozen
class Ancestral(Sampler):
    """The reverse steps of the process, for every process."""

    needs: ClassVar[frozenset[str]] = frozenset()
    along_paths: ClassVar[bool] = True

    skip: bool = True
    clip: bool = attrs.field(default=False, kw_only=True)

    def frames(
        self, model: Model, noise: Noise, cond: Tensor | None = None, z: Tensor | None = None
    ) -> Iterator[Frame]:
        path, levels = self.path(model, noise, cond), self.levels(model)
        count = len(levels.log_snr) - 1
        z = path.start(z)
        yield Frame(z, 0)

        for index in self._events(path, levels).T:  # each sample's next event
            rows = (index < count).nonzero().squeeze(1)
            if not len(rows):
                break
            at, rows = index[rows], rows.to(z.device)
            part = z[rows]
            moved = self._moved(path, part, path.step(levels, part, at), rows)
            z = z.index_copy(0, rows, moved.to(z.dtype))
            yield Frame(z, int(at.max()) + 1)

        yield self.finish(path, z, levels)

    def _moved(self, path: Trajectory, z: Tensor, step: Step, rows: Tensor) -> Tensor:
        """z of the samples ``rows`` after their step."""
        prediction = path.predict(z, step.level, rows)
        if self.clip:
            prediction = path.process.clip_prediction(prediction)
        return path.process.reverse(z, prediction, step, path.noise.select(rows))

    def _events(self, path: Trajectory, levels: Level) -> Tensor:
        """[B, T] the steps each sample takes, padded with T; on the CPU."""
        count = len(levels.log_snr) - 1
        every = torch.arange(count).expand(len(path.noise), -1)
        if not self.skip:
            return every
        active = path.process.active_steps(levels, path.noise, path.first).cpu()
        return torch.where(active, every, count).sort(1).values

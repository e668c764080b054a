"""Ancestral sampling, event-driven: z_s ~ p(z_s | z_t), and no call where nothing can happen.

A process may know beforehand which steps can change a sample (``active_steps``): in masked
diffusion those in which some token is revealed, since the reveal times do not depend on the
network. Every sample then walks its own active steps and leaves the batch when finished, so the
network sees each sample only at its own events; samples at different steps share a call. With
``skip: false`` every step is walked: the samples are the same, the calls are not.

With ``clip`` the expected data is moved into the data's range before each step, as DDPM and IDDPM
do; that of a categorical process is never outside.
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
    """The process's own reverse steps, for every process."""

    needs: ClassVar[frozenset[str]] = frozenset()

    skip: bool = True
    clip: bool = attrs.field(default=False, kw_only=True)

    def frames(
        self, model: Model, noise: Noise, cond: Tensor | None = None, z: Tensor | None = None
    ) -> Iterator[Frame]:
        path, levels = self.path(model, noise, cond), self.levels(model)
        count = len(levels.log_snr) - 1
        z = path.start(z)
        yield Frame(z, 0)

        for index in self._events(path, levels).T:  # each sample's next event, whichever that is
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
        """The samples z in ``rows`` after their step."""
        prediction = path.predict(z, step.level, rows)
        if self.clip:
            prediction = path.process.within_range(prediction)
        return path.process.reverse(z, prediction, step, path.noise.select(rows))

    def _events(self, path: Trajectory, levels: Level) -> Tensor:
        """[B, T] the steps each sample walks, padded with T; on the CPU, to be counted there."""
        count = len(levels.log_snr) - 1
        every = torch.arange(count).expand(len(path.noise), -1)
        if not self.skip:
            return every
        active = path.process.active_steps(levels, path.noise).cpu()
        return torch.where(active, every, count).sort(1).values

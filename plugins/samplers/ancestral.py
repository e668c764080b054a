"""Ancestral sampling, event-driven: z_s ~ p(z_s | z_t), and no call where nothing can happen.

A process may know beforehand which steps can change a sample (``active_steps``): in masked
diffusion those in which some token is revealed, since the reveal times do not depend on the
network. Every sample then walks its own active steps and leaves the batch when finished, so the
network sees each sample only at its own events; samples at different steps share a call. With
``skip: false`` every step is walked: the samples are the same, the calls are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import attrs
import torch
from elbowroom import Frame, Level, Noise, Sampler, Step
from elbowroom.sampler import Model, precision
from torch import Tensor


@attrs.frozen
class Ancestral(Sampler):
    """The process's own reverse steps, for every process."""

    needs: ClassVar[frozenset[str]] = frozenset()

    skip: bool = True

    def frames(
        self, model: Model, noise: Noise, cond: Tensor | None = None, z: Tensor | None = None
    ) -> Iterator[Frame]:
        process, levels = model.process, self.levels(model)
        z = process.prior(noise) if z is None else z
        calls = torch.zeros(len(noise), dtype=torch.int64, device=z.device)
        events = self._events(model, levels, noise)  # [B, T] steps to walk, padded with T
        yield Frame(z, 0)

        for index in events.T:  # each sample's next event, whichever step that is
            rows = (index < self.steps).nonzero().squeeze(1)
            if not len(rows):
                break
            at, part = index[rows], z[rows]
            step = Step(
                at,
                levels.select(at).over(part, precision(part)),
                levels.select(at + 1).over(part, precision(part)),
                levels.select(torch.zeros_like(at)).over(part, precision(part)),
            )
            prediction = model.predict(part, step.level, None if cond is None else cond[rows])
            z = z.index_copy(0, rows, process.reverse(part, prediction, step, noise.select(rows)))
            calls[rows] += 1
            yield Frame(z, int(at.max()) + 1)

        yield self.finish(model, z, levels, noise, cond, calls)

    def _events(self, model: Model, levels: Level, noise: Noise) -> Tensor:
        every = torch.arange(self.steps, device=noise.device).expand(len(noise), -1)
        if not self.skip:
            return every
        active = model.process.active_steps(levels, noise)
        return torch.where(active, every, self.steps).sort(1).values

"""The repair: the bound nearest to any weighting.

    P = argmin over non-decreasing, non-negative f of  integral (w - f)^2 dt

On the certificate's grid this is isotonic regression. Between grid points P is w itself, held
between the projection's neighbouring values: where w already rises nothing changes, where it
falls P is flat. So the result is non-decreasing everywhere, exactly.
"""

from __future__ import annotations

import attrs
import torch
from elbowroom import Level, Process, Schedule, Weighting
from elbowroom.certificate import isotonic_projection, midpoints
from torch import Tensor


@attrs.frozen
class Isotonic(Weighting):
    """The projection of another weighting onto the bounds; it depends on the schedule."""

    of: Weighting

    def prepare(self, schedule: Schedule, process: Process) -> Projection:
        inner = self.of.prepare(schedule, process)
        w = inner(Level.of(midpoints(), schedule, process))
        return Projection(inner, isotonic_projection(w).clamp(min=0))

    def __call__(self, level: Level) -> Tensor:
        raise RuntimeError("the isotonic repair needs prepare(schedule, process) first")


@attrs.frozen(eq=False)
class Projection(Weighting):
    """A weighting held between the values of its projection on the grid."""

    of: Weighting
    values: Tensor  # [2000] at the midpoints, non-decreasing

    def __call__(self, level: Level) -> Tensor:
        low, high = self._between(level)
        held = self.of(level).clamp(low, high)
        return torch.where(level.t.isnan(), level.t, held)

    def plain_weight(self, level: Level) -> Tensor:
        # the same clamp on the plain loss's weight: finite where w is infinite and elbo_weight 0
        low, high = self._between(level)
        ceiling = torch.where(high.isinf(), high, high * level.elbo_weight)
        return self.of.plain_weight(level).clamp(low * level.elbo_weight, ceiling)

    def _between(self, level: Level) -> tuple[Tensor, Tensor]:
        """The projection at the grid points before and after each level."""
        values = self.values.to(level.t)
        ends = values.new_zeros(1), values.new_full((1,), torch.inf)
        index = torch.searchsorted(midpoints().to(level.t), level.t.contiguous(), right=True)
        return torch.cat([ends[0], values])[index], torch.cat([values, ends[1]])[index]

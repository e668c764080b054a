"""Isotonic projection: the bound nearest to a weighting.

    P = argmin over non-decreasing, non-negative f of  integral (w - f)^2 dt

On a grid this is isotonic regression, with each point weighted by the length of its cell. In
continuous time P is interpolated linearly on a fine grid, in discrete time it is known at every
step and piecewise constant. Both are exactly non-decreasing at every t, whatever the weighting is
between grid points. Where w falls P is flat; where w rises P equals w at the grid points, and to a
relative 1e-6 between them (for the weightings of the paper).
"""

from __future__ import annotations

import attrs
import torch
from elbowroom import Level, Process, Schedule, Weighting
from elbowroom.plugins.paper.certificate import isotonic_projection
from elbowroom.plugins.paper.slack import cell_widths
from elbowroom.plugins.paper.survey import look_closely, survey_steps
from torch import Tensor


@attrs.frozen
class Isotonic(Weighting):
    """Projection of a weighting onto the bounds; it depends on the schedule."""

    of: Weighting

    def prepare(self, schedule: Schedule, process: Process, steps: int | None = None) -> Projection:
        inner = self.of.prepare(schedule, process, steps)
        if steps is not None:
            seen, _ = survey_steps(inner, schedule, process, steps)
            w = seen.w[seen.w.isfinite()]  # w may be infinite at t = 1
            return IsotonicStairs(inner, torch.cat([_project(w), seen.w[len(w) :]]))
        seen = look_closely(inner, schedule, process)
        values = _project(seen.w[1:-1], cell_widths(seen.t[1:-1]))
        return IsotonicRamps(inner, values, seen.t[1:-1], float(max(values[-1], seen.w[-1])))

    def __call__(self, level: Level) -> Tensor:
        raise RuntimeError("Isotonic needs prepare(schedule, process) before it is called")


@attrs.frozen(eq=False)
class Projection(Weighting):
    """The projection of a weighting under one schedule and process."""

    of: Weighting
    values: Tensor  # [n] non-decreasing

    def over_positions(self, shape: tuple[int, ...]) -> Tensor | None:
        return self.of.over_positions(shape)

    def plain_weight(self, level: Level) -> Tensor:
        # where w is infinite and elbo_weight 0, the weighting defines their product
        w = self(level)
        return torch.where(w.isinf(), self.of.plain_weight(level), w * level.elbo_weight)


@attrs.frozen(eq=False)
class IsotonicRamps(Projection):
    """Linear interpolation by operations that preserve order in floating point."""

    t: Tensor  # [n] increasing, inside (0, 1)
    end: float  # value at t = 1, possibly infinite
    _cache: dict[torch.device, tuple[Tensor, Tensor]] = attrs.field(factory=dict, init=False)

    def __call__(self, level: Level) -> Tensor:
        t, (nodes, values) = level.t.double(), self._on(level.t.device)
        k = (torch.searchsorted(nodes, t.contiguous(), right=True) - 1).clamp(0, len(nodes) - 2)
        low, high = values[k], values[k + 1]
        part = ((t - nodes[k]) / (nodes[k + 1] - nodes[k])).clamp(0, 1)
        w = torch.minimum(low + (high - low) * part, high)
        return torch.where(t >= 1, self.end, w).to(level.t.dtype)

    def _on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Nodes and values on a device, copied once."""
        if device not in self._cache:
            self._cache[device] = self.t.to(device), self.values.to(device)
        return self._cache[device]


@attrs.frozen(eq=False)
class IsotonicStairs(Projection):
    """The value at the nearest of T steps."""

    def __call__(self, level: Level) -> Tensor:
        steps = len(self.values)
        index = (level.t.nan_to_num() * steps).round().long().clamp(1, steps) - 1
        return torch.where(level.t.isnan(), level.t, self.values.to(level.t)[index])


def _project(w: Tensor, weight: Tensor | None = None) -> Tensor:
    """The nearest non-decreasing, non-negative sequence; exactly w if it is one."""
    # pooled means may differ in the last bit, which the running maximum removes
    return isotonic_projection(w, weight).cummax(0).values.clamp(min=0)

"""Moving: one weighting early in training, another one late.

    w = (1 - a) w_begin / m_begin + a w_end / m_end,     a = min(updates / over, 1)

m is the mean weight on the plain loss over the schedule before training, so that neither counts
more by its scale. Either may learn, from losses all the time and by gradients where it counts.
Bounds form a cone: between two of them every moment is a bound. A bell-shaped beginning is
``{name: isotonic, of: edm}``, the bound nearest to it.
"""

from __future__ import annotations

import torch
from elbowroom import Adaptive, IncompatibleError, Level, Losses, Process, Schedule, Weighting
from torch import Tensor, nn

_POINTS = 512


class Moving(nn.Module, Weighting, Adaptive):
    """From the weighting ``begin`` to the weighting ``end`` in ``over`` updates."""

    updates: Tensor  # how many there have been, float64

    def __init__(self, *, begin: Weighting, end: Weighting, over: int) -> None:
        super().__init__()
        if over < 1:
            raise ValueError("over: one update at least")
        self.begin, self.end, self.over = begin, end, over
        self.scales = (1.0, 1.0)
        self.register_buffer("updates", torch.zeros((), dtype=torch.float64))

    def prepare(self, schedule: Schedule, process: Process, steps: int | None = None) -> Moving:
        self.begin = self.begin.prepared(schedule, process, steps)
        self.end = self.end.prepared(schedule, process, steps)
        if not self.updates:  # later it is asked what it is, not made anew
            self.scales = self._scales(schedule, process)
        return self

    @torch.no_grad()
    def _scales(self, schedule: Schedule, process: Process) -> tuple[float, float]:
        """1/m of the beginning and of the end."""
        middle = (torch.arange(_POINTS, dtype=torch.float64) + 0.5) / _POINTS
        level = Level.of(middle, schedule, process)
        begin, end = (part.plain_weight(level).mean() for part in (self.begin, self.end))
        return 1 / float(begin), 1 / float(end)

    def __call__(self, level: Level) -> Tensor:
        return self._between(self.begin(level), self.end(level))

    def plain_weight(self, level: Level) -> Tensor:
        return self._between(self.begin.plain_weight(level), self.end.plain_weight(level))

    def penalty(self, level: Level) -> Tensor:
        none = level.log_snr.new_zeros(())  # most weightings have none, and say so by a number
        return self._between(none + self.begin.penalty(level), none + self.end.penalty(level))

    def over_positions(self, shape: tuple[int, ...]) -> Tensor | None:
        early, late = self.begin.over_positions(shape), self.end.over_positions(shape)
        if early is None and late is None:
            return None
        if early is None or late is None or not torch.equal(early, late):
            raise IncompatibleError(
                "weighting moving: its beginning and its end weigh positions differently; write "
                "{name: positions, of: {name: moving, ...}}, which weighs them alike"
            )
        return early

    def _between(self, early: Tensor, late: Tensor) -> Tensor:
        a = (self.updates / self.over).clamp(max=1).to(early)
        first, second = self.scales
        # 0 times infinity is nothing here: a weighting that does not count yet says nothing
        early = torch.where(a < 1, (1 - a) * first * early, 0.0)
        return early + torch.where(a > 0, a * second * late, 0.0)

    def look(self, losses: Losses) -> Tensor:
        return losses.per_example.new_zeros(1)

    def adapt(self, found: Tensor) -> None:
        self.updates += 1

    def extra_repr(self) -> str:
        return f"begin={self.begin!r}, end={self.end!r}, over={self.over}"

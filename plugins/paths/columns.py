"""Path ``columns``: an interval of the common time for each part of an example.

Part m moves while tau is between a_m and b_m,

    gamma_m(tau) = clip((tau - a_m) / (b_m - a_m), 0, 1),

and the other parts share the interval [0, 1]. A part with a later interval (closer to 1) is
generated earlier. Parts are those of the data (the columns of a table) by name, or positions by
number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import torch
from elbowroom import DataSpec, IncompatibleError, Noise, Path
from torch import Tensor


@attrs.frozen(eq=False)
class Columns(Path):
    """``intervals``: part -> [begin, end] of its time, e.g. ``{age: [0.5, 1]}``."""

    intervals: Mapping[str, Sequence[float]] = attrs.field(factory=dict)
    _ends: Tensor | None = attrs.field(default=None, init=False, repr=False)  # [2, N]

    @intervals.validator
    def _check(self, _: object, given: Mapping[str, Sequence[float]]) -> None:
        for part, ends in given.items():
            if len(ends) != 2 or not 0 <= ends[0] < ends[1] <= 1:
                raise ValueError(f"intervals: {part}: {list(ends)} is not 0 <= begin < end <= 1")

    def prepare(self, data: DataSpec) -> Path:
        ends = torch.tensor([0.0, 1.0], dtype=torch.float64)[:, None].repeat(1, data.dims)
        for part, interval in self.intervals.items():
            ends[:, positions_of_part(data, str(part))] = torch.tensor(
                interval, dtype=torch.float64
            )[:, None]
        ready = attrs.evolve(self)
        object.__setattr__(ready, "_ends", ends)
        return ready

    def __call__(self, t: Tensor, noise: Noise, shape: Sequence[int]) -> tuple[Tensor, Tensor]:
        assert self._ends is not None, "call prepare with the form of the data first"
        begin, end = self._ends.to(t.device)
        clock = (t[:, None] - begin) / (end - begin)  # [B, N]
        speed = ((clock > 0) & (clock <= 1)).to(t.dtype) / (end - begin)
        return clock.clamp(0, 1).view(-1, *shape), speed.view(-1, *shape)


def positions_of_part(data: DataSpec, part: str) -> slice:
    """The positions of a named part, or one position by its number."""
    parts = {one.name: slice(one.start, one.stop) for one in getattr(data, "parts", None) or ()}
    if part in parts:
        return parts[part]
    if part.isdigit() and int(part) < data.dims:
        return slice(int(part), int(part) + 1)
    known = ", ".join(parts) or f"positions 0 to {data.dims - 1}"
    raise IncompatibleError(f"no part {part!r} in the data: {known}")

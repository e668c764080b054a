"""Where a weighting is looked at.

w is a black box in t: no finite number of looks proves what it does between them. So the looks go
where something may be hidden, and what was looked at is told with every verdict:

    everywhere     an even grid of [0, 1]
    at both ends   distances 0.1 ... 1e-12, evenly in their logarithm
    in lambda      no two neighbours farther apart than 1/16 of log-SNR
    where w bends  a few rounds that cut the cells in doubt. For a cell of width h with rise r and
                   end slopes a, b (dw/dt by autograd) the doubt is, relative to |w|,

                       |r - h a| + |r - h b|:

                   zero where w is a line, large where the foot of a bump or a jump shows. Any
                   falling slope is followed up, however small. Where w cannot be differentiated,
                   second differences stand in.

Slopes say where to look, values decide: a fall is told with the two times that show it. A bump is
found if a look falls on it, or if a slope at a look shows its foot. One that is narrower than the
largest gap and flat to the last bit at every look stays unseen.

NaN and minus infinity are refused wherever they are seen, plus infinity everywhere but at the ends
(at t = 1 it is legal, at t = 0 w falls from it). Where lambda itself is infinite at an end, a
formula that says 0/0 there is read as its limit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs
import torch
from elbowroom import ElbowroomError, Level
from torch import Tensor

if TYPE_CHECKING:
    from elbowroom import Process, Schedule, Weighting

ROUNDING = 1e-10  # relative: a fall smaller than this is float64 noise
_FLOOR = 1e-14  # of the median: where w vanishes, noise has the size of what it is computed from
_AROUND, _ROUGH = 32, 16  # looks on either side; how many times their roughness noise may reach
_EVEN = 2**14
_CLOSEST, _PER_DECADE = 12, 64  # up to 1e-12 from an end
_FINE, _FINER = 4, 32  # times as many where w is to be stood for
_LOG_SNR_GAP, _MOST = 1 / 16, 64  # at most so many cells for one
_ROUNDS, _CUT = 3, 128  # cells a round
_TINY = torch.finfo(torch.float64).tiny
_NARROWEST = 1e-14  # a cell that is not cut any more


@attrs.frozen(eq=False)
class Survey:
    """w at every time it was looked at, from t = 0 to t = 1 (or at every step of discrete time)."""

    t: Tensor  # [n] float64, rising
    w: Tensor  # [n] float64; the last may be infinite
    slopes: bool  # was dw/dt looked at?

    @property
    def gap(self) -> float:
        """The largest distance between neighbours."""
        return float(self.t.diff().max()) if len(self.t) > 1 else 0.0

    @property
    def fall(self) -> tuple[int, int] | None:
        """Between which two looks w falls most; None where it never does, to rounding."""
        highest, place = self.w.cummax(0)
        deficit = highest - self.w  # NaN where both are infinite: no fall
        if not bool((deficit > _TINY).any()):  # most weightings, and quicker
            return None
        fallen = deficit > rounding(self.t, self.w)
        if not bool(fallen.any()):
            return None
        lowest = int(torch.where(fallen, deficit, -1.0).argmax())
        return int(place[lowest]), lowest


def survey(weighting: Weighting, schedule: Schedule, process: Process) -> Survey:
    """Look at a prepared weighting in continuous time; it stops where a fall has been seen."""
    look = _Look(weighting, schedule, process)
    rows = look(_in_log_snr(_first_looks(), schedule)[None])  # [1, n]
    seen = [rows]
    for _ in range(_ROUNDS):
        row, cell = _doubtful(rows)
        if rows.fallen or not len(row):
            break
        rows = look(_quartered(rows.t[row, cell], rows.t[row, cell + 1]))  # [k, 5]
        seen.append(rows)
    t, order = torch.cat([rows.t.flatten() for rows in seen]).sort()
    w = torch.cat([rows.w.flatten() for rows in seen])[order]
    new = torch.cat([t.diff() > 0, torch.ones(1, dtype=torch.bool)])  # each time once
    slopes = all(rows.slope is not None for rows in seen)
    return _with_ends(Survey(t[new], w[new], slopes), weighting, schedule, process)


def levels_at(t: Tensor, schedule: Schedule, process: Process, steps: int | None = None) -> Level:
    """The levels of times ``t``, or of the nearest steps of discrete time."""
    if steps is None:
        return Level.of(t, schedule, process)
    nearest = (t * steps).round().clamp(1, steps) / steps
    return Level.of_step(nearest, steps, schedule, process)


def survey_steps(
    weighting: Weighting, schedule: Schedule, process: Process, steps: int
) -> tuple[Survey, Level]:
    """A prepared weighting at the T steps that discrete time trains, and their levels."""
    t = torch.arange(1, steps + 1, dtype=torch.float64) / steps
    level = Level.of_step(t, steps, schedule, process)
    w = weighting(level).detach().double()
    _refuse(weighting, level, w, infinite=t == 1)
    return Survey(t, w, slopes=False), level


def look_closely(weighting: Weighting, schedule: Schedule, process: Process) -> Survey:
    """A prepared weighting on a grid fine enough to stand for it between the looks as well."""
    t = _first_looks(_FINE * _EVEN, _FINER * _PER_DECADE)
    level = Level.of(t, schedule, process)
    w = weighting(level).detach().double()
    _refuse(weighting, level, w)
    return _with_ends(Survey(t, w, slopes=False), weighting, schedule, process)


def rounding(t: Tensor, w: Tensor) -> Tensor:
    """[n] what float64 may leave of an equality.

    Relative to w, and where w vanishes by cancellation the size of the noise: at most a small part
    of the median of w, and no more than its roughness. Tiny values of a smooth w have none.
    """
    finite = w[w.isfinite()].abs()
    typical = finite.median() if len(finite) else w.new_zeros(())
    noise = torch.minimum(_FLOOR * typical, _ROUGH * _roughness(t, w))
    return ROUNDING * w.abs().nan_to_num(posinf=0.0) + noise + _TINY


def _roughness(t: Tensor, w: Tensor) -> Tensor:
    """[n] how far looks are from the line through their neighbours, exceeded by a tenth nearby."""
    if len(t) < 3:
        return torch.zeros_like(w)
    part = t.diff()[:-1] / (t[2:] - t[:-2])
    off = (w[1:-1] - torch.lerp(w[:-2], w[2:], part)).abs().nan_to_num(0.0, posinf=0.0)
    near = torch.nn.functional.pad(off, (_AROUND + 1, _AROUND + 1)).unfold(0, 2 * _AROUND + 1, 1)
    return near.kthvalue(int(1.8 * _AROUND), dim=1).values


@attrs.frozen(eq=False)
class _Rows:
    """Neighbouring looks, row by row."""

    t: Tensor  # [R, n] rising along n
    w: Tensor  # [R, n]
    slope: Tensor | None  # [R, n] dw/dt

    @property
    def fallen(self) -> bool:
        """Does w fall within a row?"""
        return bool((self.w.cummax(1).values - self.w > ROUNDING * self.w.abs()).any())


@attrs.frozen(eq=False)
class _Look:
    """w and dw/dt at times inside (0, 1)."""

    weighting: Weighting
    schedule: Schedule
    process: Process

    def __call__(self, t: Tensor) -> _Rows:
        level = Level.of(t.flatten(), self.schedule, self.process)
        w = self.weighting(level).detach().double()
        _refuse(self.weighting, level, w)
        slope = self._slope(level.t, w)
        return _Rows(t, w.view_as(t), None if slope is None else slope.view_as(t))

    def _slope(self, t: Tensor, w: Tensor) -> Tensor | None:
        """dw/dt; None where w cannot be differentiated.

        By reverse mode: w is elementwise, and torch imports its compiler for forward mode.
        """
        t = t.detach().requires_grad_()
        try:
            with torch.enable_grad():
                total = self.weighting(Level.of(t, self.schedule, self.process)).sum()
            slope: Tensor | None = torch.autograd.grad(total, t, allow_unused=True)[0]
        except (RuntimeError, TypeError, ValueError):  # the value exists: only the slope does not
            slope = None
        if slope is None:
            return torch.zeros_like(w) if bool((w == w[0]).all()) else None
        return slope.double()


def _first_looks(cells: int = _EVEN, per_decade: int = _PER_DECADE) -> Tensor:
    """The even grid and both ends, inside (0, 1)."""
    even = torch.arange(1, cells, dtype=torch.float64) / cells
    decades = torch.arange(per_decade, _CLOSEST * per_decade + 1, dtype=torch.float64)
    distance = 10 ** (-decades / per_decade)
    looks: Tensor = torch.cat([even, distance, 1 - distance]).unique()
    return looks


def _in_log_snr(t: Tensor, schedule: Schedule) -> Tensor:
    """``t`` with every cell cut that is too wide in lambda."""
    fall = -schedule.log_snr(t).detach().double().diff()
    parts = (fall / _LOG_SNR_GAP).ceil().nan_to_num(1.0).clamp(1, _MOST).long()
    first = torch.repeat_interleave(parts.cumsum(0) - parts, parts)
    part = (torch.arange(len(first)) - first) / parts.repeat_interleave(parts)
    width = t.diff().repeat_interleave(parts)
    finer: Tensor = torch.cat([t[:-1].repeat_interleave(parts) + part * width, t[-1:]]).unique()
    return finer


def _quartered(low: Tensor, high: Tensor) -> Tensor:
    """[k, 5] each cell's ends and the three times between."""
    parts = torch.arange(5, dtype=torch.float64) / 4
    return torch.lerp(low[:, None], high[:, None], parts)


def _doubtful(rows: _Rows) -> tuple[Tensor, Tensor]:
    """(row, cell) of what to cut: the cells in the greatest doubt, if any is."""
    h, rise = rows.t.diff(), rows.w.diff()
    if rows.slope is None:
        doubt, falling = h * _bend(rise / h), torch.zeros_like(h).bool()
    else:
        a, b = rows.slope[:, :-1], rows.slope[:, 1:]
        falling = (a < 0) | (b < 0)
        doubt = (rise - h * a).abs() + (rise - h * b).abs()
        doubt = torch.where(doubt.isfinite(), doubt, rise.abs())
    size = rows.w[:, :-1].abs() + rows.w[:, 1:].abs()
    relative = torch.where(h > _NARROWEST, doubt / size.clamp(min=_TINY), 0.0)
    wanted = (relative > ROUNDING) | (falling & (relative > 0))
    most = min(_CUT, int(wanted.sum()))
    chosen = torch.where(wanted, relative, -1.0).flatten().topk(most).indices
    return chosen // h.shape[1], chosen % h.shape[1]


def _bend(steepness: Tensor) -> Tensor:
    """[R, cells] how much a cell's steepness differs from its neighbours'."""
    change = steepness.diff().abs()
    none = change.new_zeros(len(change), 1)
    return torch.maximum(torch.cat([change, none], 1), torch.cat([none, change], 1))


def _with_ends(seen: Survey, weighting: Weighting, schedule: Schedule, process: Process) -> Survey:
    ends = torch.tensor([0.0, 1.0], dtype=torch.float64)
    at = Level.of(ends, schedule, process)
    values = [_end_value(weighting, schedule, process, float(end)) for end in ends]
    w = torch.tensor(values, dtype=torch.float64)
    _refuse(weighting, at, w, infinite=torch.ones_like(ends).bool())
    return attrs.evolve(
        seen,
        t=torch.cat([ends[:1], seen.t, ends[1:]]),
        w=torch.cat([w[:1], seen.w, w[1:]]),
    )


def _end_value(weighting: Weighting, schedule: Schedule, process: Process, end: float) -> float:
    """w(0) or w(1): as a limit where lambda is infinite there and the formula says 0/0."""
    distances = torch.tensor([0.0, 1e-12, 1e-9, 1e-6], dtype=torch.float64)
    level = Level.of((end - distances).abs(), schedule, process)
    at, near, nearby, away = weighting(level).tolist()
    if not math.isnan(at) or bool(level.log_snr[0].isfinite()):
        return float(at)
    last, before = near - nearby, nearby - away
    still_growing = last > before / 2 and last > ROUNDING * abs(near)
    return math.inf if still_growing else float(near)


def _refuse(weighting: Weighting, level: Level, w: Tensor, infinite: Tensor | None = None) -> None:
    """An error that names the first time where w is not a number it may be."""
    bad = ~w.isfinite()
    if infinite is not None:
        bad &= ~(infinite & (w == torch.inf))
    if not bool(bad.any()):
        return
    t, value = float(level.t[bad][0]), float(w[bad][0])
    raise ElbowroomError(
        f"{weighting} is {value} at t = {t:.12g}: a weighting must be finite inside (0, 1), "
        "and neither NaN nor minus infinity anywhere"
    )

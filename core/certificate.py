"""Is this weighting a bound?

Theorem 2 of Shi & Titsias writes a weighted objective as a sum of improved bounds L^(i) with
weights w_i = w(t_i) - w(t_(i-1)): it is a bound if and only if no w_i is negative, that is if w is
non-negative and does not fall with t. For any weighting, schedule and process this file says
whether that holds, and by how much not:

    isotonic distance   integral |w - P| dt / integral |w| dt,  P the least-squares non-decreasing
                        function nearest to w (2000 midpoints of [0, 0.999])
    negative share      sum of the negative w_i / sum |w_i|, over the cascade on those points

and the projection P is the repair (:func:`isotonic_projection`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import attrs
import torch
from torch import Tensor

from .errors import ElbowroomError
from .level import Level

if TYPE_CHECKING:
    from .process import Process
    from .schedule import Schedule
    from .weighting import Weighting

POINTS = 2000
END = 0.999
_ROUNDING = 1e-10  # relative: a fall smaller than this is float64 noise


def midpoints() -> Tensor:
    """The grid of every certificate, [2000] float64."""
    return (torch.arange(POINTS, dtype=torch.float64) + 0.5) * (END / POINTS)


@attrs.frozen
class Certificate:
    """What can be said of a weighting under a schedule and a process."""

    monotone: bool  # w does not fall with t
    non_negative: bool
    infinite_at_end: bool  # w(t) grows without bound as t goes to 1
    isotonic_distance: float
    negative_share: float
    start: float  # w(0)
    end: float  # w(1); inf where infinite_at_end
    total_weight: float  # mean weight on the plain loss

    @property
    def is_bound(self) -> bool:
        """Is the objective a weighted sum of variational bounds?"""
        return self.monotone and self.non_negative

    def record(self) -> dict[str, Any]:
        """Plain data, the verdict included."""
        return {**attrs.asdict(self), "is_bound": self.is_bound, "verdict": self.verdict}

    @property
    def verdict(self) -> str:
        """The same in plain words."""
        if self.is_bound:
            tail = "; it grows without bound as t goes to 1" if self.infinite_at_end else ""
            return f"a bound: w is non-negative and never falls with t{tail}"
        faults = []
        if not self.monotone:
            faults.append(
                f"w falls with t (isotonic distance {self.isotonic_distance:.3f}, "
                f"{self.negative_share:.0%} of the cascade's weight is negative)"
            )
        if not self.non_negative:
            faults.append("w is negative somewhere")
        return "not a bound: " + " and ".join(faults)


def certify(weighting: Weighting, schedule: Schedule, process: Process) -> Certificate:
    """Look at w on a grid and at both ends."""
    weighting = weighting.prepare(schedule, process)
    level = Level.of(midpoints(), schedule, process)
    w = weighting(level)
    if not w.isfinite().all():
        t = float(level.t[~w.isfinite()][0])
        raise ElbowroomError(f"{weighting} is not finite at t = {t:.4f}, inside (0, {END})")
    start = _end_value(weighting, schedule, process, 0.0)
    end = _end_value(weighting, schedule, process, 1.0)
    path = torch.cat([_finite(start), w, _finite(end)])
    falls = path[1:] - path[:-1] < -_ROUNDING * path[1:].abs()
    increments = torch.cat([w[:1], w.diff()])
    return Certificate(
        monotone=not bool(falls.any()),
        non_negative=bool((path >= 0).all()),
        infinite_at_end=math.isinf(end),
        isotonic_distance=_ratio((w - isotonic_projection(w)).abs().sum(), w.abs().sum()),
        negative_share=_ratio(_negative(increments, w).sum(), increments.abs().sum()),
        start=start,
        end=end,
        total_weight=float(weighting.plain_weight(level).mean() * END),
    )


def isotonic_projection(w: Tensor) -> Tensor:
    """The non-decreasing sequence nearest to w [n] in least squares."""
    from sklearn.isotonic import isotonic_regression

    return torch.from_numpy(isotonic_regression(w.double().numpy()))


def _end_value(weighting: Weighting, schedule: Schedule, process: Process, end: float) -> float:
    """w(0) or w(1): as a limit where lambda is infinite there and the formula says 0/0."""
    distances = torch.tensor([0.0, 1e-12, 1e-9, 1e-6], dtype=torch.float64)
    at, near, nearby, away = weighting(
        Level.of((end - distances).abs(), schedule, process)
    ).tolist()
    if not math.isnan(at):
        return float(at)
    last, before = near - nearby, nearby - away
    still_growing = last > before / 2 and last > _ROUNDING * abs(near)
    return math.inf if still_growing else float(near)


def _finite(value: float) -> Tensor:
    """An end of the path, if it is a number that can be compared."""
    return torch.tensor([value] if math.isfinite(value) else [], dtype=torch.float64)


def _negative(increments: Tensor, w: Tensor) -> Tensor:
    """The negative weights of the cascade, free of rounding."""
    return torch.where(increments < -_ROUNDING * w.abs(), -increments, 0.0)


def _ratio(part: Tensor, whole: Tensor) -> float:
    return float(part / whole) if whole > 0 else 0.0

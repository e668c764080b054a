"""Is this weighting a bound?

Theorem 2 of Shi & Titsias writes a weighted objective as a sum of improved bounds L^(i) with
weights w_i = w(t_i) - w(t_(i-1)): it is a bound if and only if no w_i is negative, that is if w is
non-negative and does not fall with t. For any weighting, schedule and process this file says
whether a fall was seen (:mod:`elbowroom.plugins.paper.survey` says where it is looked for; in
discrete time the steps are all there is), and by how much it is none:

    isotonic distance   integral |w - P| dt / integral |w| dt,  P the least-squares non-decreasing
                        function nearest to w (2000 midpoints of [0, 0.999], or the T steps)
    negative share      sum of the negative w_i / sum |w_i|, over the cascade on those points
    slack               what share of w a bound holds at what slack (:mod:`.slack`)

and the projection P is the repair (:func:`isotonic_projection`).
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any

import attrs
import torch
from elbowroom import Level
from elbowroom.config import Remark
from elbowroom.contracts import is_trained, positions_of
from torch import Tensor, nn

from .slack import Slack, cell_widths, slack
from .survey import ROUNDING, Survey, survey, survey_steps

if TYPE_CHECKING:
    from elbowroom import Diffusion, Process, Schedule, Weighting
    from elbowroom.config import Parts

POINTS = 2000
END = 0.999
_PER_TIME = "a part of the whole, per unit of t: a run's curve gives bits/dim"


def midpoints() -> Tensor:
    """Where the distances are measured, [2000] float64."""
    return (torch.arange(POINTS, dtype=torch.float64) + 0.5) * (END / POINTS)


@attrs.frozen
class Fall:
    """Two times between which w falls."""

    high_t: float
    low_t: float
    high: float
    low: float

    def __str__(self) -> str:
        return (
            f"w falls with t, from {self.high:.4g} at t = {_near(self.high_t)} "
            f"to {self.low:.4g} at t = {_near(self.low_t)}"
        )


@attrs.frozen
class Certificate:
    """Whether a weighting is a bound under a schedule and a process, and how far it is from one.

    :func:`certify` computes it. ``is_bound`` is the result, ``verdict`` the result in words,
    ``record()`` plain data.
    """

    monotone: bool  # no fall of w with t was seen
    non_negative: bool
    infinite_at_end: bool  # w(t) grows without bound as t goes to 1
    isotonic_distance: float
    negative_share: float
    start: float  # w(0), or at the first step
    end: float  # w(1); inf where infinite_at_end
    total_weight: float  # mean weight on the plain loss
    points: int  # how many times were looked at
    largest_gap: float  # in t, between two of them
    differentiated: bool  # was dw/dt looked at?
    steps: int | None  # of discrete time: then the points are all there is
    fall: Fall | None  # the largest
    slack: Slack | None  # what share of w a bound holds, at what slack; None of a bound
    positions: tuple[float, float] | None = None  # what the least and the most counting ones count
    changes: bool = False  # with training: this is what it was when it was looked at

    @property
    def is_bound(self) -> bool:
        """Is the objective a weighted sum of variational bounds, as far as was seen?"""
        every = self.positions is None or self.positions[0] > 0
        return self.monotone and self.non_negative and every

    def record(self) -> dict[str, Any]:
        """Plain data, the verdict included."""
        return {**attrs.asdict(self), "is_bound": self.is_bound, "verdict": self.verdict}

    @property
    def verdict(self) -> str:
        """The same in plain words."""
        if self.is_bound:
            tail = "; it grows without bound as t goes to 1" if self.infinite_at_end else ""
            found = f"w is non-negative and non-decreasing {self.seen}{tail}{self._counted}"
            return f"a bound{self._when}: {found}"
        faults = []
        if self.fall is not None:
            faults.append(
                f"{self.fall} (isotonic distance {self.isotonic_distance:.3f}, "
                f"{self.negative_share:.0%} of the cascade's weight is negative)"
            )
        if not self.non_negative:
            faults.append("w is negative somewhere")
        if self.positions is not None and not self.positions[0] > 0:
            faults.append("some positions count nothing")
        return f"not a bound{self._when}: " + " and ".join(faults)

    @property
    def _when(self) -> str:
        return " as it is now, and changes with training" if self.changes else ""

    @property
    def _counted(self) -> str:
        if self.positions is None:
            return ""
        least, most = (f"{value:.4g}" for value in self.positions)
        return (
            f"; positions count {least} to {most}, so the loss is {least} times a weighted sum of "
            "bounds, and something non-negative"
        )

    @property
    def seen(self) -> str:
        """What the verdict rests on."""
        if self.steps is not None:
            return f"over the {self.steps} steps that are trained"
        slopes = "dw/dt looked at too" if self.differentiated else "w cannot be differentiated"
        return f"at {self.points} points of [0, 1], largest gap {self.largest_gap:.0e}, {slopes}"


def certify(
    weighting: Weighting, schedule: Schedule, process: Process, steps: int | None = None
) -> Certificate:
    """Check whether a weighting is a variational bound, by searching for a fall of w.

    Args:
        weighting: The weighting w.
        schedule: The schedule that gives w its times.
        process: The noise process.
        steps: Number of steps in discrete time, all of which are checked; None: all of [0, 1].

    Returns:
        The certificate; ``is_bound`` and ``verdict`` are its result.

    Example:
        ``er.certify(weighting, objective.schedule, objective.process).verdict``
    """
    weighting = weighting.prepare(schedule, process, steps)
    if steps is None:
        seen = survey(weighting, schedule, process)
        level = Level.of(midpoints(), schedule, process)
        w, mean = weighting(level).detach().double(), END
    else:
        seen, level = survey_steps(weighting, schedule, process, steps)
        w, mean = seen.w[seen.w.isfinite()], 1.0
    increments = torch.cat([w[:1], w.diff()])
    fall, non_negative = _fall(seen), bool((seen.w >= 0).all())
    return Certificate(
        monotone=fall is None,
        non_negative=non_negative,
        infinite_at_end=math.isinf(float(seen.w[-1])),
        isotonic_distance=_ratio((w - isotonic_projection(w)).abs().sum(), w.abs().sum()),
        negative_share=_ratio(_negative(increments, w).sum(), increments.abs().sum()),
        start=float(seen.w[0]),
        end=float(seen.w[-1]),
        total_weight=float(weighting.plain_weight(level).detach().mean() * mean),
        points=len(seen.t),
        largest_gap=seen.gap,
        differentiated=seen.slopes,
        steps=steps,
        fall=fall,
        slack=None if fall is None and non_negative else _slack(seen, steps),
        positions=_positions(weighting, process),
        changes=is_trained(weighting),
    )


def current_certificate(model: Diffusion) -> dict[str, float]:
    """``negative_share`` and ``is_bound`` of a trained weighting now; nothing of a fixed one."""
    objective, weighting = model.objective, model.objective.weighting
    if not isinstance(weighting, nn.Module) or not is_trained(weighting):
        return {}
    now = copy.deepcopy(weighting).cpu()
    found = certify(now, objective.schedule, objective.process, objective.steps)
    return {"negative_share": found.negative_share, "is_bound": float(found.is_bound)}


def isotonic_projection(w: Tensor, weight: Tensor | None = None) -> Tensor:
    """The non-decreasing sequence nearest to w [n] in least squares, each with its weight [n]."""
    if bool((w.diff() >= 0).all()):
        return w.double()
    from scipy.optimize import isotonic_regression

    weights = None if weight is None else weight.double().numpy()
    return torch.from_numpy(isotonic_regression(w.double().numpy(), weights=weights).x)


def _positions(weighting: Weighting, process: Process) -> tuple[float, float] | None:
    """What the least and the most counting positions count."""
    v = positions_of(weighting, process)
    return None if v is None else (float(v.min()), float(v.max()))


def _fall(seen: Survey) -> Fall | None:
    between = seen.fall
    if between is None:
        return None
    at = list(between)
    return Fall(*seen.t[at].tolist(), *seen.w[at].tolist())


def _slack(seen: Survey, steps: int | None) -> Slack:
    """Share against slack as if every moment lost the same."""
    cost = cell_widths(seen.t) if steps is None else torch.full_like(seen.t, 1 / steps)
    finite = seen.w.isfinite()
    return slack(seen.w[finite], cost[finite], _PER_TIME)


def _near(t: float) -> str:
    """A time, with as many digits as its nearer end asks for."""
    return f"{t:.4g}" if t <= 0.999 or t == 1 else f"1 - {1 - t:.2g}"


def _negative(increments: Tensor, w: Tensor) -> Tensor:
    """The negative weights of the cascade, free of rounding."""
    return torch.where(increments < -ROUNDING * w.abs(), -increments, 0.0)


def _ratio(part: Tensor, whole: Tensor) -> float:
    return float(part / whole) if whole > 0 else 0.0


def remark(parts: Parts) -> Remark:
    """The certificate of the objective that a config describes, for ``elbowroom explain``."""
    steps = parts.config.objective.steps
    found = certify(parts.weighting, parts.schedule, parts.process, steps)
    words = found.verdict if found.slack is None else f"{found.verdict}; {found.slack.words}"
    style = "green" if found.is_bound else "red"
    path = parts.config.objective.path.build()
    words += f". Along the path: {path.meaning}" if path.meaning else ""
    return Remark("certificate", f"the objective is {words}", found.record(), style)

"""How far a weighting that is no bound is one.

With L^w = - sum_j w_j KL_j, on average over data each step's KL has two parts,

    E KL_j = A_j + I_j,    A_j = E KL(q(z_s | z_t) || p(z_s | z_t)),    I_j = I(z_s; x | z_t)

and only A_j depends on the model. For w >= 0 and its greatest non-decreasing minorant
m_j = min over k >= j of w_k (a bound, by Theorem 2) therefore

    E L^w = E L^m - sum (w_j - m_j) A_j - sum (w_j - m_j) I_j:

w is still a lower bound of the mixture m on average, looser by terms that are not negative, the
last of them free of the model. m is ruled by w at t = 1, so it may hold nearly nothing of w. For
*any* non-decreasing m >= 0 what keeps w from being such a lower bound is

    slack = sum (m_j - w_j)_+ A_j  <=  sum (m_j - w_j)_+ c_j,    c_j = E KL_j = step_price * loss

and what m holds of w is sum min(m_j, w_j) c_j / sum w_j c_j. The best m at every price of slack,
argmin of sum c_j [(w_j - m_j)_+ + price (m_j - w_j)_+], is isotonic quantile regression. Between
two such m their mixtures hold and cost at least as favourably as the straight line.

A weighting's scale means nothing, so w is scaled to weigh 1 on average over c. With a run's curve
c is in bits per dimension, and so is the slack; without one c is time itself, and the slack a part
of the whole, as if every moment lost the same.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import torch
from elbowroom import ElbowroomError, Level, Process, Schedule, Weighting
from torch import Tensor

SHARES = (0.5, 0.75, 0.9, 0.99, 1.0)
_PRICES = (32.0, 8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.125, 1 / 32)
_POINTS = 600  # of the regressions; the minorant sees every point
_PER_BIN = 24
_TINY = torch.finfo(torch.float64).tiny
_LATE = 0.75  # a run's curve is the mean over its last quarter: one window is noisy


@attrs.frozen
class Held:
    """A non-decreasing m: the share of the weighting it holds, and what that costs."""

    share: float
    slack: float  # at most


@attrs.frozen
class Slack:
    """Share held against slack."""

    without: Held  # by the greatest non-decreasing minorant: no slack where w >= 0
    rows: tuple[Held, ...]  # the least slack found for each of SHARES
    unit: str  # what the slack is in

    def record(self) -> dict[str, Any]:
        """Plain data."""
        return attrs.asdict(self)

    @property
    def words(self) -> str:
        """One line; a share never stands without its slack."""
        first = f"{self.without.share:.1%} with slack {_formatted(self.without.slack)}"
        rest = (f"{row.share:.0%} with {_formatted(row.slack)}" for row in self.rows)
        return f"a bound with slack holds {', '.join([first, *rest])} ({self.unit})"


def slack(w: Tensor, cost: Tensor, unit: str) -> Slack:
    """Of w [n] at rising times, each with its cost c [n]; infinite w must be left out before."""
    without = _held(minorant(w), w, cost)
    group, thin, thin_cost = _grouped(w, cost)
    fits = [isotonic_quantile(thin, thin_cost, price)[group] for price in _PRICES]
    candidates = [*fits, w.clamp(min=0).cummax(0).values]
    frontier = sorted((_held(m, w, cost) for m in candidates), key=lambda one: one.share)
    rows = tuple(Held(share, _least([without, *frontier], share)) for share in SHARES)
    return Slack(without, rows, unit)


def minorant(w: Tensor) -> Tensor:
    """[n] the greatest non-decreasing, non-negative function below w >= 0."""
    return w.flip(0).cummin(0).values.flip(0).clamp(min=0)


def isotonic_quantile(w: Tensor, cost: Tensor, price: float) -> Tensor:
    """[n] argmin over non-decreasing m >= 0 of sum c [(w - m)_+ + price (m - w)_+].

    By dynamic programming over convex functions: after j terms the least cost with m_j <= x is
    convex and falling in x, and a heap keeps where its slope changes, the highest first.
    """
    slopes: list[list[float]] = []  # [-place, change of slope there]
    best = []
    for value, weight in zip(w.clamp(min=0).tolist(), cost.tolist(), strict=True):
        if weight > 0:  # a level at which a run was not seen to lose anything says nothing
            heapq.heappush(slopes, [-value, weight * (1 + price)])
            excess = weight * price  # the slope beyond the last place: the minimum lies before it
            while slopes[0][1] <= excess:
                excess -= heapq.heappop(slopes)[1]
            slopes[0][1] -= excess
        best.append(-slopes[0][0] if slopes else 0.0)
    return minorant(torch.tensor(best, dtype=w.dtype))


# -- what a moment costs


def cell_widths(t: Tensor) -> Tensor:
    """[n] without a run: the time around each look."""
    edges = torch.cat([t[:1], (t[1:] + t[:-1]) / 2, t[-1:]])
    return edges.diff()


@attrs.frozen(eq=False)
class LossCurve:
    """What a run loses at each level: the ELBO's density over lambda, in bits per dimension."""

    log_snr: Tensor  # [K] centres of the bins
    density: Tensor  # [K]
    unit: str

    @classmethod
    def of_log(cls, log: Iterable[Mapping[str, Any]], run: str) -> LossCurve:
        """From the log of a run, averaged over the last quarter of its steps."""
        rows = [row for row in log if "elbo_by_level" in row.get("curves", {})]
        if not rows:
            raise ElbowroomError(f"{run} has no curve in its log yet: train it first")
        end = rows[-1]["step"]
        late = [row for row in rows if row["step"] > _LATE * end]
        curves = torch.tensor([row["curves"]["elbo_by_level"] for row in late]).double()
        unit = f"bits/dim, at most, by the training log of {run} up to step {end}"
        return cls(curves[-1, 0], curves[:, 1].mean(0), unit)

    @property
    def width(self) -> float:
        return float(self.log_snr[1] - self.log_snr[0])

    def times(self, schedule: Schedule) -> Tensor:
        """[n] rising: a few times for each bin."""
        within = (torch.arange(_PER_BIN, dtype=torch.float64) + 0.5) / _PER_BIN - 0.5
        lam = self.log_snr[:, None] + within * self.width
        return schedule.time(lam.flatten()).sort().values

    def cost(self, log_snr: Tensor) -> Tensor:
        """[n] each look's part of its bin, by the lambda around it: in all, bits per dimension."""
        inner = (self.log_snr[1:] + self.log_snr[:-1]) / 2
        index = torch.bucketize(log_snr, inner)
        around = cell_widths(-log_snr).clamp(min=_TINY)
        whole = torch.zeros_like(self.density).index_add(0, index, around)
        return self.density[index].clamp(min=0) * self.width * around / whole[index]


def slack_on_run(
    weighting: Weighting,
    schedule: Schedule,
    process: Process,
    curve: LossCurve,
    steps: int | None = None,
) -> Slack:
    """Of a prepared weighting, where a run says what each level loses."""
    if steps is None:
        level = Level.of(curve.times(schedule), schedule, process)
    else:
        t = torch.arange(1, steps + 1, dtype=torch.float64) / steps
        level = Level.of_step(t, steps, schedule, process)
    w = weighting(level).detach().double()
    seen = w.isfinite() & level.log_snr.isfinite()
    return slack(w[seen], curve.cost(level.log_snr[seen]), curve.unit)


# -- within


def _held(m: Tensor, w: Tensor, cost: Tensor) -> Held:
    """What m holds and costs, w scaled to weigh 1 on average."""
    positive = w.clamp(min=0)
    whole = (positive @ cost).clamp(min=_TINY)
    share = (torch.minimum(m, positive) @ cost) / whole
    over = ((m - w).clamp(min=0) @ cost) * cost.sum() / whole
    return Held(min(float(share), 1.0), float(over))


def _grouped(w: Tensor, cost: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(group of each look, mean w and cost of each group): neighbours of about equal cost."""
    place = (cost.cumsum(0) - cost / 2) / cost.sum().clamp(min=_TINY)
    group = (place * _POINTS).long().clamp(0, _POINTS - 1).unique(return_inverse=True)[1]
    nothing = cost.new_zeros(int(group[-1]) + 1)
    total = nothing.index_add(0, group, cost)
    return group, nothing.index_add(0, group, cost * w) / total.clamp(min=_TINY), total


def _least(frontier: Sequence[Held], share: float) -> float:
    """The slack of the mixture of two neighbours that holds this share."""
    for below, above in itertools.pairwise(frontier):
        if below.share >= share - 1e-9:
            return below.slack
        if above.share >= share - 1e-9:
            part = (share - below.share) / max(above.share - below.share, 1e-300)
            return below.slack + min(part, 1.0) * (above.slack - below.slack)
    return frontier[-1].slack


def _formatted(value: float) -> str:
    return f"{value:.3g}"

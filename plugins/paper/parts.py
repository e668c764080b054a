"""What an objective of several parts bounds: columns or modalities with their own weights.

*Shared clock*: parts k = 1 .. K have the weights w_k(tau) on one clock. With

    m(tau) = min over k and tau' >= tau of w_k(tau'),

m does not fall and w_k - m >= 0, so the objective is the weighted bound of m plus a non-negative
rest: a bound if m is not zero everywhere. The share of part k is integral m / integral w_k.

*Independent times*: each part has its own uniform time. With the others fixed, the integral over
t_k is a bound on -log p(x_k | z of the others) if w_k does not fall. So it is enough that each w_k
is non-negative and does not fall, with any balance between the parts: the objective is a sum of
bounds on conditionals.

*Fields*: for weights f_k(t_1, ..., t_K) on the cube, a sufficient condition is

    sum over k of df_k/dt_k >= 0,

evaluated by differences on a grid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import torch
from elbowroom import ElbowroomError, Level, Process, Schedule, Weighting
from torch import Tensor

from .certificate import Certificate, certify, midpoints


@attrs.frozen
class PartsCertificate:
    """What the objective of several parts bounds."""

    clock: str  # shared or independent
    parts: Mapping[str, Certificate]
    shares: Mapping[str, float]  # of each part's weight that is in the bound

    @property
    def is_bound(self) -> bool:
        """Whether the objective is a weighted sum of bounds, up to a non-negative rest."""
        if self.clock == "independent":
            return all(one.is_bound for one in self.parts.values())
        return all(one.non_negative for one in self.parts.values()) and (
            min(self.shares.values()) > 0
        )

    @property
    def verdict(self) -> str:
        """What is bounded, in words."""
        if self.clock == "independent":
            return self._independent()
        shares = ", ".join(f"{name} {share:.0%}" for name, share in self.shares.items())
        if not self.is_bound:
            return "not a bound: the common minorant of the weights is zero"
        if min(self.shares.values()) > 1 - 1e-6:
            return "a bound on -log p(all parts): the weights are equal and do not fall"
        return (
            "a bound on -log p(all parts) plus a non-negative rest. Share of each part's weight "
            f"in the bound: {shares}"
        )

    def _independent(self) -> str:
        bad = {name: one for name, one in self.parts.items() if not one.is_bound}
        if not bad:
            return (
                "a sum over the parts of bounds on -log p(part | the others with noise), with any "
                "balance between the parts"
            )
        return "; ".join(f"{name} is {one.verdict}" for name, one in bad.items())

    def record(self) -> dict[str, Any]:
        """Plain data, the verdict included."""
        return {
            "clock": self.clock,
            "is_bound": self.is_bound,
            "verdict": self.verdict,
            "shares": dict(self.shares),
            "parts": {name: one.record() for name, one in self.parts.items()},
        }


def certify_parts(
    weightings: Mapping[str, Weighting],
    schedule: Schedule,
    process: Process,
    clock: str = "shared",
    balance: Mapping[str, float] | None = None,
) -> PartsCertificate:
    """Return what the objective with a weighting for each part bounds.

    Args:
        weightings: Part -> its weighting.
        schedule: The schedule of all parts.
        process: The process of all parts.
        clock: "shared" for one time for all parts, "independent" for a time for each.
        balance: Part -> a positive factor of its weighting (default 1).

    Raises:
        ElbowroomError: There are fewer than two parts, or a factor is not positive.
    """
    if len(weightings) < 2:
        raise ElbowroomError(
            "parts: name at least two, e.g. --part image=sigmoid --part label=elbo"
        )
    factors = {name: float((balance or {}).get(name, 1.0)) for name in weightings}
    for name, factor in factors.items():
        if not factor > 0:
            raise ElbowroomError(f"parts: the factor {factor:g} of {name} is not positive")
    ready = {name: one.prepare(schedule, process) for name, one in weightings.items()}
    level = Level.of(midpoints(), schedule, process)
    w = {name: factors[name] * one(level).detach().double() for name, one in ready.items()}
    minorant = common_minorant(torch.stack(list(w.values()))).clamp(min=0)
    return PartsCertificate(
        clock,
        {name: certify(one, schedule, process) for name, one in weightings.items()},
        {
            name: float(minorant.sum() / one.sum()) if one.sum() > 0 else 0.0
            for name, one in w.items()
        },
    )


def common_minorant(w: Tensor) -> Tensor:
    """[T] the largest non-decreasing function below all rows of w [K, T]."""
    return w.amin(0).flip(0).cummin(0).values.flip(0)


@attrs.frozen
class FieldCertificate:
    """The least divergence of a field of weights on the cube."""

    divergence: float
    at: tuple[float, ...]
    points: int

    @property
    def is_bound(self) -> bool:
        """Whether the divergence is non-negative at all points."""
        return self.divergence >= 0

    @property
    def verdict(self) -> str:
        """The condition in words, with what was evaluated."""
        place = ", ".join(f"{value:.3g}" for value in self.at)
        seen = f"at {self.points} points of the cube; least divergence {self.divergence:.3g}"
        return f"{'a bound' if self.is_bound else 'not shown to be a bound'} {seen}, at ({place})"


def certify_field(
    field: Callable[[Tensor], Tensor], parts: int, side: int = 33
) -> FieldCertificate:
    """Return the least divergence of ``field`` on a grid of ``side`` ** ``parts`` points.

    Args:
        field: Times [n, K] -> non-negative weights [n, K].
        parts: K, at most 4.
        side: Grid points along each axis; around the least, the grid is refined once.
    """
    if not 1 <= parts <= 4:
        raise ElbowroomError(f"parts: {parts} is not between 1 and 4")
    low, high = torch.zeros(parts).double(), torch.ones(parts).double()
    total = 0
    for _ in range(2):
        axes = [
            torch.linspace(float(a), float(b), side).double()
            for a, b in zip(low, high, strict=True)
        ]
        t = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).reshape(-1, parts)
        found = _divergence(field, t)
        least = int(found.argmin())
        total += len(t)
        reach = (high - low) / (side - 1)
        low, high = (t[least] - reach).clamp(0, 1), (t[least] + reach).clamp(0, 1)
    value = float(found[least])
    return FieldCertificate(0.0 if abs(value) < 1e-9 else value, tuple(t[least].tolist()), total)


def _divergence(field: Callable[[Tensor], Tensor], t: Tensor, h: float = 1e-5) -> Tensor:
    """[n] sum_k df_k/dt_k, by differences inside the cube."""
    total = torch.zeros(len(t), dtype=torch.float64)
    for k in range(t.shape[1]):
        step = torch.zeros(t.shape[1], dtype=torch.float64)
        step[k] = h
        above, below = (t + step).clamp(0, 1), (t - step).clamp(0, 1)
        total += (field(above)[:, k] - field(below)[:, k]) / (above - below)[:, k]
    return total

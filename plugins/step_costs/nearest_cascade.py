"""The cascade nearest to a weighting: a bound by construction that is like it where the bits are.

    shares = argmin over a >= 0 of  integral (w - a_0 - sum_k a_k s_k)^2 du

by non-negative least squares at the levels of a curve, each weighted by its part of the information
coordinate u (:mod:`~elbowroom.plugins.step_costs.information`). The steps s_k are those of the
weighting ``cascade`` itself, each asked for alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs
import torch
from elbowroom import ElbowroomError, Level, Process, Schedule, Weighting, named_component
from torch import Tensor, nn

from .costs import StepCosts
from .information import information

_DIGITS = 5  # of a share in a config
_NOTHING = 1e-9


@attrs.frozen
class NearestCascade:
    """Shares of a cascade, and how near it comes."""

    knots: tuple[float, ...]
    shares: tuple[float, ...]  # the ELBO's first
    residual: float  # root mean square of the difference over u, relative to the weighting's own

    @property
    def spec(self) -> dict[str, object]:
        """As a config has it."""
        return spec_of(self.knots, self.shares)


def spec_of(knots: Sequence[float], shares: Sequence[float] = ()) -> dict[str, object]:
    """A cascade as a config has it; equal shares where none are given."""
    given = {"shares": list(shares)} if shares else {}
    return {"name": "cascade", "knots": list(knots), **given}


@torch.no_grad()
def nearest_cascade(
    weighting: Weighting,
    schedule: Schedule,
    process: Process,
    costs: StepCosts,
    knots: tuple[float, ...],
) -> NearestCascade:
    """The cascade with these knots that is nearest to a weighting (one that was prepared)."""
    from scipy.optimize import nnls

    _check_only_of_level(weighting, process)
    level = Level.at(costs.log_snr, process)
    w, mass = weighting(level).double(), _masses(costs)
    if bool(w.isnan().any()):  # it reads the schedule
        w = weighting(Level.of(schedule.time(costs.log_snr), schedule, process)).double()
    steps = torch.stack([_alone(knots, k)(level).double() for k in range(len(knots) + 1)], dim=1)
    known = w.isfinite()
    root = mass[known].sqrt()
    wanted = root * w[known]
    size = float(wanted.norm())
    if not 0 < size < math.inf:
        raise ElbowroomError("the weighting has no finite weight at the levels of this curve")
    shares, away = nnls((root[:, None] * steps[known]).numpy() / size, wanted.numpy() / size)
    if not shares.sum() > 0:
        raise ElbowroomError("no cascade is near a weighting that is not above 0 anywhere")
    parts = shares / shares.sum()
    parts[parts < _NOTHING] = 0  # what rounding left
    return NearestCascade(knots, tuple(float(f"{part:.{_DIGITS}g}") for part in parts), float(away))


def _check_only_of_level(weighting: Weighting, process: Process) -> None:
    """A cascade is a function of the level alone, for good."""
    name = type(weighting).__name__
    if weighting.over_positions(process.shape or ()) is not None:
        raise ElbowroomError(f"weighting {name} weighs positions, and no cascade does")
    if isinstance(weighting, nn.Module) and weighting.state_dict():
        raise ElbowroomError(f"weighting {name} changes with training, and no cascade does")


def _masses(costs: StepCosts) -> Tensor:
    """[n + 1] the part of u around each level; that of the last has the reconstruction too."""
    u = information(costs)
    between = -u.diff()
    mass = torch.zeros_like(u)
    mass[:-1] += between / 2
    mass[1:] += between / 2
    mass[-1] += u[-1]
    return mass


def _alone(knots: tuple[float, ...], k: int) -> Weighting:
    """The cascade with all of its mass in one share."""
    shares = [float(k == one) for one in range(len(knots) + 1)]
    made: Weighting = named_component("weighting", spec_of(knots, shares), path="SPEC").build()
    return made

"""Costs of sampling steps: the terms of the bound of a sampler with few steps.

For levels lambda_0 < ... < lambda_T from noise to data the ancestral sampler's bound is

    B(grid) = sum over i of C(lambda_i, lambda_i+1) + ends,      C(lambda, lambda') = E step_kl,

with one prediction at each lambda_i. Where a process has the form price times plain loss, the price
of a step is linear in a coordinate S of its end,

    C(lambda_i, lambda_j) = slope_i (S_j - S_i),      slope_i = d step_price / dS * E[plain loss],

masked: S is the share of unmasked tokens and the slope is N times the mean cross-entropy of a
masked one; Gaussian: S is the SNR and the slope the mean squared error over 2. B is then a left
Riemann sum. For an exact denoiser slopes do not rise. Those of a trained network are measured with
noise, so they are projected onto non-rising sequences before a grid is optimised.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import torch
from elbowroom import ElbowroomError, Process, Schedule
from elbowroom.files import is_number
from elbowroom.plugins.paper.certificate import isotonic_projection
from torch import Tensor

MOST_LEVELS = 2048
"""More levels take minutes to search."""

_LARGEST = 1e200  # beyond it products overflow


@attrs.frozen(eq=False)
class StepCosts:
    """Costs of the steps between n + 1 levels, in nats per example."""

    log_snr: Tensor  # [n + 1] rising
    coordinate: Tensor | None = None  # [n + 1] S; None: only ``measured`` is known
    slope: Tensor | None = None  # [n]
    error: Tensor | None = None  # [n] the slopes' standard errors
    measured: Tensor | None = None  # [n + 1, n + 1] table, without a coordinate

    def table(self) -> Tensor:
        """[n + 1, n + 1] C(lambda_i, lambda_j); infinite where j is not above i."""
        if self.coordinate is None or self.slope is None:
            assert self.measured is not None
            found = self.measured
        else:
            slope = torch.cat([self.slope, self.slope.new_zeros(1)])
            found = slope[:, None] * (self.coordinate - self.coordinate[:, None])
        above = torch.ones_like(found, dtype=torch.bool).triu(1)
        return found.masked_fill(~above, math.inf)

    def along(self, process: Process, log_snr: Tensor) -> StepCosts:
        """Costs on another grid between the same ends, slopes interpolated."""
        assert self.slope is not None and self.error is not None, "needs slopes"
        slope, error = (
            _interpolated(self.log_snr[:-1], values, log_snr[:-1])
            for values in (self.slope, self.error)
        )
        coordinate, _ = coordinate_of(process, log_snr)
        return StepCosts(log_snr, coordinate, slope, error)

    def within(self, schedule: Schedule) -> StepCosts:
        """Costs restricted to a schedule's range, with its ends where these are finite."""
        low, high = schedule.log_snr(torch.tensor([1.0, 0.0], dtype=torch.float64)).tolist()
        first = max(int((self.log_snr <= low).sum()) - 1, 0)
        last = min(int((self.log_snr < high).sum()), len(self.log_snr) - 1)
        if last - first < 1:
            raise ElbowroomError(
                "sampler.grid.curve: measured outside this schedule's range of log-SNR"
            )
        levels, steps = slice(first, last + 1), slice(first, last)
        log_snr = self.log_snr[levels].clone()
        log_snr[0] = low if math.isfinite(low) else log_snr[0]
        log_snr[-1] = high if math.isfinite(high) else log_snr[-1]
        return StepCosts(
            log_snr,
            None if self.coordinate is None else self.coordinate[levels],
            None if self.slope is None else self.slope[steps],
            None if self.error is None else self.error[steps],
            None if self.measured is None else self.measured[levels, levels],
        )

    def monotone(self) -> StepCosts:
        """Project the slopes onto non-rising sequences, weighted by their errors."""
        if self.slope is None or self.error is None:
            return self
        weight = 1 / self.error.square().clamp(min=1e-30, max=1e30)
        return attrs.evolve(self, slope=-isotonic_projection(-self.slope, weight))

    def total(self, nodes: Sequence[int]) -> float:
        """Diffusion term of the bound for a grid through these nodes."""
        at = torch.tensor(nodes)
        return float(self.table()[at[:-1], at[1:]].sum())

    def record(self) -> dict[str, Any]:
        """JSON data."""
        given = attrs.asdict(self, recurse=False, filter=lambda _, value: value is not None)
        return {n: v.tolist() if isinstance(v, Tensor) else v for n, v in given.items()}

    @classmethod
    def of_record(cls, record: Any) -> StepCosts:
        """Parse and validate JSON data."""
        if not isinstance(record, Mapping):
            raise ElbowroomError("no curve in this file")
        known = {field.name for field in attrs.fields(cls)} & record.keys()
        given = {name: _tensor(record[name], name) for name in known}
        found = cls(**given) if "log_snr" in given else None
        if found is None or not found._whole():
            raise ElbowroomError("the curve is incomplete or inconsistent")
        return found

    def _whole(self) -> bool:
        """Are levels rising, shapes consistent and costs non-negative?"""
        n = len(self.log_snr) - 1
        if not 1 <= n <= MOST_LEVELS or not _rises(self.log_snr, n + 1):
            return False
        if self.measured is not None:
            alone = self.coordinate is None and self.slope is None
            return alone and _costs(self.measured, n + 1, n + 1)
        if self.coordinate is None or self.slope is None or self.error is None:
            return False
        known = _costs(self.slope, n) and _costs(self.error, n)
        return known and _rises(self.coordinate, n + 1)


def coordinate_of(process: Process, log_snr: Tensor) -> tuple[Tensor, Tensor]:
    """S [n + 1] and d step_price / dS [n] at rising levels, S from 0 to 1."""
    reach = process.step_price(log_snr[0], log_snr)  # linear in S, 0 at the first level
    coordinate = reach / reach[-1]
    whole = process.step_price(log_snr[:-1], log_snr[-1])
    return coordinate, whole / (1 - coordinate[:-1])


def distinct_levels(process: Process, log_snr: Tensor) -> Tensor:
    """Rising levels without those whose step price vanishes in float64; the end stays."""
    coordinate, _ = coordinate_of(process, log_snr)
    return log_snr[torch.cat([coordinate.diff() > 0, torch.ones(1, dtype=torch.bool)])]


def has_price(process: Process) -> bool:
    """Is the KL of a step its price times the plain loss?"""
    return type(process).step_kl is Process.step_kl


def _interpolated(places: Tensor, values: Tensor, at: Tensor) -> Tensor:
    """``values`` [n] at rising ``places`` [n], linearly between them and constant beyond."""
    above = torch.searchsorted(places, at).clamp(1, len(places) - 1)
    low, high = places[above - 1], places[above]
    part = ((at - low) / (high - low)).clamp(0, 1)
    return torch.lerp(values[above - 1], values[above], part)


def _rises(values: Tensor, *shape: int) -> bool:
    return values.shape == shape and bool(values.isfinite().all() and (values.diff() > 0).all())


def _costs(values: Tensor, *shape: int) -> bool:
    return values.shape == shape and bool(values.isfinite().all() and (values >= 0).all())


def _tensor(given: Any, name: str) -> Tensor:
    rows: list[Any] = given if isinstance(given, list) else [None]
    flat = [one for row in rows for one in (row if isinstance(row, list) else [row])]
    even = len({len(row) if isinstance(row, list) else -1 for row in rows}) == 1
    if not even or not all(is_number(one) and abs(one) < _LARGEST for one in flat):
        raise ElbowroomError(f"the curve's {name} is not a list of finite numbers")
    return torch.tensor(given, dtype=torch.float64)

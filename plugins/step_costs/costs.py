"""Costs of steps: what the bound of a sampler with few steps is made of.

For levels lambda_0 < ... < lambda_T from noise to data the ancestral sampler's bound is

    B(grid) = sum over i of C(lambda_i, lambda_i+1) + ends,      C(lambda, lambda') = E step_kl,

one prediction at each lambda_i, then arithmetic for every lambda' above it. Where a process has the
form price times plain loss, the price of a step is linear in a coordinate S of its end,

    C(lambda_i, lambda_j) = slope_i (S_j - S_i),      slope_i = d step_price / dS * E[plain loss],

masked: S is the share of visible tokens and the slope is N times the mean cross-entropy of a hidden
one; Gaussian: S is the SNR and the slope the mean squared error over 2. B is then a left Riemann
sum. For an exact denoiser slopes do not rise: knowing more never makes a guess worse. Those of a
trained network are measured, so they are projected onto that before anything is optimised.

A step of a masked process in which no token appears needs no network call. Each of N tokens appears
in the step from share a_i to a_j with p = (a_j - a_i)/(1 - a_0), whatever the others do, and is
still hidden at the end with q = (1 - a_T)/(1 - a_0), which takes a last look. So a sample takes

    sum over steps of 1 - (1 - p)^N  +  1 - (1 - q)^N      calls on average.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import torch
from elbowroom import ElbowroomError, Process, Schedule
from elbowroom.files import is_count, is_number
from elbowroom.plugins.paper.certificate import isotonic_projection
from torch import Tensor

MOST_LEVELS = 2048
"""A table of the costs between more levels takes minutes to search."""

_MOST_TOKENS, _LARGEST = 2**40, 1e200  # beyond them numbers run over


@attrs.frozen(eq=False)
class StepCosts:
    """Costs of the steps between n + 1 levels, in nats per example."""

    log_snr: Tensor  # [n + 1] rising
    coordinate: Tensor | None = None  # [n + 1] S; None: only a table is known
    slope: Tensor | None = None  # [n]
    error: Tensor | None = None  # [n] the slopes' standard errors
    measured: Tensor | None = None  # [n + 1, n + 1] the table, where there is no coordinate
    tokens: int | None = None  # N; None: every step is a call
    reconstruction: float | None = None  # nats beyond the last level; None: not known

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

    def calls(self) -> Tensor:
        """[n + 1, n + 1] how often the step from i to j is a network call."""
        share = self.log_snr.sigmoid()
        return self._happens(share - share[:, None])

    def final_prediction(self) -> float:
        """How often a token is still hidden at the end, which takes one more call."""
        return float(self._happens((-self.log_snr[-1]).sigmoid()))

    def expected_calls(self, nodes: Sequence[int]) -> float:
        """The mean number of calls a sample takes on a grid through some of the levels."""
        at = torch.tensor(nodes)
        return float(self.calls()[at[:-1], at[1:]].sum()) + self.final_prediction()

    def _happens(self, share: Tensor) -> Tensor:
        """1 - (1 - p)^N: something happens in so large a share of all tokens' ways."""
        assert self.tokens is not None, "every step is a call"
        p = (share / (-self.log_snr[0]).sigmoid()).clamp(0, 1)
        return -torch.expm1(self.tokens * torch.log1p(-p))

    def along(self, process: Process, log_snr: Tensor) -> StepCosts:
        """Those of the steps of another grid between the same ends, slopes interpolated."""
        assert self.slope is not None and self.error is not None, "only a table is known"
        slope, error = (
            _interpolated(self.log_snr[:-1], values, log_snr[:-1])
            for values in (self.slope, self.error)
        )
        coordinate, _ = coordinate_of(process, log_snr)
        return StepCosts(log_snr, coordinate, slope, error, tokens=self.tokens)

    def within(self, schedule: Schedule) -> StepCosts:
        """Those of the levels that a schedule has, with its own ends where these are finite."""
        low, high = schedule.log_snr(torch.tensor([1.0, 0.0], dtype=torch.float64)).tolist()
        first = max(int((self.log_snr <= low).sum()) - 1, 0)
        last = min(int((self.log_snr < high).sum()), len(self.log_snr) - 1)
        if last - first < 1:
            raise ElbowroomError("sampler.grid.curve: it was measured at other levels than these")
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
            self.tokens,
            self.reconstruction,
        )

    def monotone(self) -> StepCosts:
        """The same with slopes that do not rise, nearest in least squares by their errors."""
        if self.slope is None or self.error is None:
            return self
        weight = 1 / self.error.square().clamp(min=1e-30, max=1e30)
        return attrs.evolve(self, slope=-isotonic_projection(-self.slope, weight))

    def total(self, nodes: Sequence[int]) -> float:
        """The bound's diffusion term for a grid through some of the levels."""
        at = torch.tensor(nodes)
        return float(self.table()[at[:-1], at[1:]].sum())

    def record(self) -> dict[str, Any]:
        """Plain data."""
        given = attrs.asdict(self, recurse=False, filter=lambda _, value: value is not None)
        return {n: v.tolist() if isinstance(v, Tensor) else v for n, v in given.items()}

    @classmethod
    def of_record(cls, record: Any) -> StepCosts:
        """From plain data, which a stranger may have written."""
        if not isinstance(record, Mapping):
            raise ElbowroomError("it has no curve")
        known = {field.name for field in attrs.fields(cls)}
        tensors = (known & record.keys()) - {"tokens", "reconstruction"}
        given = {name: _tensor(record[name], name) for name in tensors}
        tokens, beyond = record.get("tokens"), record.get("reconstruction")
        if tokens is not None and not (is_count(tokens) and 0 < tokens <= _MOST_TOKENS):
            raise ElbowroomError("its curve has tokens that cannot be counted")
        if beyond is not None and not (is_number(beyond) and 0 <= beyond < _LARGEST):
            raise ElbowroomError("its curve has a reconstruction that cannot be one")
        found = None
        if "log_snr" in given:
            found = cls(**given, tokens=tokens, reconstruction=beyond)
        if found is None or not found._whole():
            raise ElbowroomError("its curve is not whole")
        return found

    def _whole(self) -> bool:
        """Levels that rise, as many costs as they have steps, and none of them negative."""
        n = len(self.log_snr) - 1
        if not 1 <= n <= MOST_LEVELS or not _rises(self.log_snr, n + 1):
            return False
        if self.measured is not None:
            either = self.coordinate is None and self.slope is None  # or it would not be looked at
            return either and _costs(self.measured, n + 1, n + 1)
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


def told_apart(process: Process, log_snr: Tensor) -> Tensor:
    """Of rising levels those whose step has a price in float64; the end stays."""
    coordinate, _ = coordinate_of(process, log_snr)
    return log_snr[torch.cat([coordinate.diff() > 0, torch.ones(1, dtype=torch.bool)])]


def has_price(process: Process) -> bool:
    """Does a step cost its price times the plain loss?"""
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
        raise ElbowroomError(f"its curve has a {name} that cannot be one")
    return torch.tensor(given, dtype=torch.float64)

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
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import torch
from elbowroom import ElbowroomError, Process, is_number
from torch import Tensor


@attrs.frozen(eq=False)
class StepCosts:
    """Costs of the steps between n + 1 levels, in nats per example."""

    log_snr: Tensor  # [n + 1] rising
    coordinate: Tensor | None = None  # [n + 1] S; None: only a table is known
    slope: Tensor | None = None  # [n]
    error: Tensor | None = None  # [n] the slopes' standard errors
    measured: Tensor | None = None  # [n + 1, n + 1] the table, where there is no coordinate

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

    def monotone(self) -> StepCosts:
        """The same with slopes that do not rise, nearest in least squares by their errors."""
        if self.slope is None or self.error is None:
            return self
        weight = 1 / self.error.square().clamp(min=1e-30)
        return attrs.evolve(self, slope=falling(self.slope, weight))

    def total(self, nodes: Sequence[int]) -> float:
        """The bound's diffusion term for a grid through some of the levels."""
        at = torch.tensor(nodes)
        return float(self.table()[at[:-1], at[1:]].sum())

    def record(self) -> dict[str, Any]:
        """Plain data."""
        given = attrs.asdict(self, recurse=False, filter=lambda _, value: value is not None)
        return {name: value.tolist() for name, value in given.items()}

    @classmethod
    def of_record(cls, record: Any) -> StepCosts:
        """From plain data, which a stranger may have written."""
        if not isinstance(record, Mapping):
            raise ElbowroomError("it has no curve")
        known = {field.name for field in attrs.fields(cls)}
        given = {name: _tensor(record[name], name) for name in known & record.keys()}
        found = cls(**given) if "log_snr" in given else None
        if found is None or not found._whole():
            raise ElbowroomError("its curve is not whole")
        return found

    def _whole(self) -> bool:
        n = len(self.log_snr) - 1
        rises = self.log_snr.ndim == 1 and n >= 1 and bool((self.log_snr.diff() > 0).all())
        if self.measured is not None:
            return rises and self.measured.shape == (n + 1, n + 1)
        if self.coordinate is None or self.slope is None or self.error is None:
            return False
        return rises and len(self.coordinate) == n + 1 and len(self.slope) == len(self.error) == n


def coordinate_of(process: Process, log_snr: Tensor) -> tuple[Tensor, Tensor]:
    """S [n + 1] and d step_price / dS [n] at rising levels, S from 0 to 1."""
    reach = process.step_price(log_snr[0], log_snr)  # linear in S, 0 at the first level
    coordinate = reach / reach[-1]
    whole = process.step_price(log_snr[:-1], log_snr[-1])
    return coordinate, whole / (1 - coordinate[:-1])


def has_price(process: Process) -> bool:
    """Does a step cost its price times the plain loss?"""
    return type(process).step_kl is Process.step_kl


def falling(values: Tensor, weight: Tensor) -> Tensor:
    """[n] the non-increasing sequence nearest to ``values`` in weighted least squares."""
    blocks: list[tuple[float, float, int]] = []  # mean, weight, length
    for value, w in zip(values.tolist(), weight.tolist(), strict=True):
        block = (value, w, 1)
        while blocks and blocks[-1][0] < block[0]:
            mean, other, length = blocks.pop()
            both = other + block[1]
            block = ((mean * other + block[0] * block[1]) / both, both, length + block[2])
        blocks.append(block)
    parts = [values.new_full((length,), mean) for mean, _, length in blocks]
    return torch.cat(parts)


def _tensor(given: Any, name: str) -> Tensor:
    rows = given if isinstance(given, list) else [None]
    flat = [one for row in rows for one in (row if isinstance(row, list) else [row])]
    even = len({len(row) if isinstance(row, list) else -1 for row in rows}) == 1
    if not even or not all(is_number(one) for one in flat):
        raise ElbowroomError(f"its curve has a {name} that cannot be one")
    return torch.tensor(given, dtype=torch.float64)

"""Decimals of a column: the same for all its measurements.

    decimals = 1 - floor(log10 s),      s the median standard error: two of its digits are shown

or, where no measurement has a standard error, three digits of the median value, floors included.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

_MOST = 6

Summary = Mapping[str, Any]
"""Mean, standard error and floor (elbowroom.plugins.compare.results)."""


@attrs.frozen
class Column:
    """The measurements of the same name."""

    decimals: int

    @classmethod
    def of(cls, measurements: Iterable[Summary | None]) -> Column:
        """The column of these measurements; None where a model has none."""
        there = [f for f in measurements if f is not None and f["mean"] is not None]
        spreads = [f["standard_error"] for f in there if f["standard_error"]]
        if spreads:
            return cls(_clipped(1 - _magnitude(statistics.median(spreads))))
        values = [abs(f[key]) for f in there for key in ("mean", "floor") if f[key]]
        return cls(_clipped(2 - _magnitude(statistics.median(values))) if values else 0)

    def value(self, measurement: Summary | None) -> str | None:
        """The mean; None where there is none."""
        return (
            None
            if measurement is None or measurement["mean"] is None
            else self.plain(measurement["mean"])
        )

    def spread(self, measurement: Summary) -> str | None:
        """The standard error after ±; None where it is not known."""
        spread = measurement["standard_error"]
        return None if spread is None else self.plain(spread)

    def plain(self, value: float) -> str:
        """Any number among them."""
        return f"{value:.{self.decimals}f}"

    def signed(self, value: float) -> str:
        """A difference between them."""
        return f"{value:+.{self.decimals}f}"


def _magnitude(value: float) -> int:
    """The power of ten of the first digit."""
    return math.floor(math.log10(value))


def _clipped(decimals: int) -> int:
    return min(max(decimals, 0), _MOST)

"""How the measurements of one column are written: all with the decimals that their spread deserves.

    decimals = 1 - floor(log10 s),      s the middle spread: it shows two digits that count

or, where no measurement has a spread, three digits of the middle one, those of real data among
them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

_MOST = 6

Summary = Mapping[str, Any]
"""Mean, sd over seeds, standard error and floor (elbowroom.plugins.compare.results)."""


@attrs.frozen
class Column:
    """The measurements of the same name."""

    decimals: int

    @classmethod
    def of(cls, measurements: Iterable[Summary | None]) -> Column:
        """The column of these measurements; None where a model has none."""
        there = [f for f in measurements if f is not None and f["mean"] is not None]
        spreads = [s for s in map(_spread, there) if s]
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
        """What stands after ±: over seeds if there are several, else of the measurement itself."""
        spread = _spread(measurement)
        return None if spread is None else self.plain(spread)

    def plain(self, value: float) -> str:
        """Any number among them."""
        return f"{value:.{self.decimals}f}"

    def signed(self, value: float) -> str:
        """A difference between them."""
        return f"{value:+.{self.decimals}f}"


def _spread(measurement: Summary) -> float | None:
    return next(
        (s for s in (measurement["sd"], measurement["standard_error"]) if s is not None), None
    )


def _magnitude(value: float) -> int:
    """The power of ten of the first digit."""
    return math.floor(math.log10(value))


def _clipped(decimals: int) -> int:
    return min(max(decimals, 0), _MOST)

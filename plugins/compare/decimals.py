"""How the figures of one column are written: all with the decimals that their spread deserves.

    decimals = 1 - floor(log10 s),      s the middle spread: it shows two digits that count

or, where no figure has a spread, three digits of the middle one, those of real data among them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

_MOST = 6

Summary = Mapping[str, Any]
"""A figure's mean, sd over seeds, standard error and floor (elbowroom.plugins.compare.results)."""


@attrs.frozen
class Column:
    """The figures of the same name."""

    decimals: int

    @classmethod
    def of(cls, figures: Iterable[Summary | None]) -> Column:
        """The column of these figures; None where a model has none."""
        there = [f for f in figures if f is not None and f["mean"] is not None]
        spreads = [s for s in map(_spread, there) if s]
        if spreads:
            return cls(_clipped(1 - _magnitude(statistics.median(spreads))))
        values = [abs(f[key]) for f in there for key in ("mean", "floor") if f[key]]
        return cls(_clipped(2 - _magnitude(statistics.median(values))) if values else 0)

    def value(self, figure: Summary | None) -> str | None:
        """The mean; None where there is none."""
        return None if figure is None or figure["mean"] is None else self.plain(figure["mean"])

    def spread(self, figure: Summary) -> str | None:
        """What stands after ±: over seeds if there are several, else of the figure itself."""
        spread = _spread(figure)
        return None if spread is None else self.plain(spread)

    def plain(self, value: float) -> str:
        """Any number among them."""
        return f"{value:.{self.decimals}f}"

    def signed(self, value: float) -> str:
        """A difference between them."""
        return f"{value:+.{self.decimals}f}"


def _spread(figure: Summary) -> float | None:
    return next((s for s in (figure["sd"], figure["standard_error"]) if s is not None), None)


def _magnitude(value: float) -> int:
    """The power of ten of the first digit."""
    return math.floor(math.log10(value))


def _clipped(decimals: int) -> int:
    return min(max(decimals, 0), _MOST)

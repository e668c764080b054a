"""What was timed, round by round, and what can be said of it on a machine that is never quiet.

Medians with their spread, and ratios within a round: a round in which everything was slow counts
for neither rival.
"""

from __future__ import annotations

import itertools
import math
import statistics

import attrs


@attrs.frozen
class Timing:
    """The seconds something took, round by round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle round."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Half the range of the middle half, relative to the median."""
        if len(self.seconds) < 4:
            return (max(self.seconds) - min(self.seconds)) / 2 / self.median
        low, _, high = statistics.quantiles(self.seconds, n=4)
        return (high - low) / 2 / self.median

    @property
    def interval(self) -> tuple[float, float]:
        """Where the median itself lies, 95 times in 100 or more; the range of few rounds.

        Each round is above the true median or below it, as a coin falls: that alone says how many
        rounds from either end it can be, whatever their distribution.
        """
        n, values = len(self.seconds), sorted(self.seconds)
        beyond = itertools.accumulate(math.comb(n, k) / 2**n for k in range(n // 2))
        k = sum(chance <= 0.025 for chance in beyond)
        return values[max(k - 1, 0)], values[min(n - k, n - 1)]

    def over(self, other: Timing) -> Timing:
        """The ratio to a rival, within each round."""
        return Timing(tuple(a / b for a, b in zip(self.seconds, other.seconds, strict=True)))

    def minus(self, other: Timing) -> Timing:
        """What it takes longer than a rival, within each round."""
        return Timing(tuple(a - b for a, b in zip(self.seconds, other.seconds, strict=True)))

"""Each weighting's shape: a small filled curve without axes."""

from __future__ import annotations

from collections.abc import Sequence

from ..loss_curves import WeightingShape
from ..results import Results

_WIDE, _HIGH = 200, 90


def weightings(results: Results) -> list[tuple[WeightingShape, dict[str, str] | None]]:
    """Every weighting once, with its shape if it has one."""
    found: dict[tuple[str, ...], WeightingShape] = {}
    for one in (model.weighting for model in results.models):
        if one is not None:
            found.setdefault((one.name, one.process, one.schedule, one.options), one)
    return [(one, _shape(*one.shape) if one.shape else None) for one in found.values()]


def _shape(t: Sequence[float], w: Sequence[float | None]) -> dict[str, str]:
    """The line, and the area below it; cut at four times the median."""
    known = [(at, value) for at, value in zip(t, w, strict=True) if value is not None]
    ordered = sorted(value for _, value in known)
    top = min(ordered[-1], 4 * max(ordered[len(ordered) // 2], 1e-12)) or 1.0
    places = [
        f"{at * _WIDE:.1f},{_HIGH - 4 - min(max(value, 0.0) / top, 1.0) * (_HIGH - 10):.1f}"
        for at, value in known
    ]
    area = f"M0,{_HIGH} L{' L'.join(places)} L{_WIDE},{_HIGH} Z"
    return {"line": " ".join(places), "area": area}

"""Each weighting's shape, with its certificate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .markup import Markup, tag
from .parts import section


def weightings_section(results: Mapping[str, Any]) -> Markup | None:
    """A small picture for each weighting."""
    cards, seen = [], []
    for group in results["groups"]:
        one = group["weighting"]
        key = None if one is None else (one["name"], one["process"], one["schedule"])
        if one is None or key in seen:
            continue
        seen.append(key)
        cards.append(_weighting(one))
    if not cards:
        return None
    return section(
        "Weightings",
        "weightings",
        tag("div", cards, class_="cards small"),
        lead="w̃(t) against time, from data (left) to noise (right), each to its own height (cut at "
        "four times its median where it grows without bound). The objective is a variational bound "
        "exactly where w̃ never falls.",
    )


def _weighting(one: Mapping[str, Any]) -> Markup:
    title = tag(
        "figcaption",
        tag("b", one["name"]),
        tag("span", f"{one['process']}, {one['schedule']} schedule"),
        tag("span", one["options"]) if one["options"] else None,
    )
    if "shape" not in one:
        return tag("figure", title, tag("p", one["problem"], class_="verdict"), class_="weighting")
    badge = tag(
        "span",
        "bound" if one["is_bound"] else "not a bound",
        class_="badge yes" if one["is_bound"] else "badge no",
    )
    return tag(
        "figure",
        _shape(*one["shape"], is_bound=one["is_bound"]),
        title,
        tag("p", badge, " ", one["verdict"].partition(": ")[2], class_="verdict"),
        tag("p", one["slack"], class_="verdict") if one.get("slack") else None,
        class_="weighting",
    )


def _shape(t: Sequence[float], w: Sequence[float | None], *, is_bound: bool) -> Markup:
    """A small filled curve without axes."""
    wide, high = 200, 90
    known = [(at, value) for at, value in zip(t, w, strict=True) if value is not None]
    ordered = sorted(value for _, value in known)
    top = min(ordered[-1], 4 * max(ordered[len(ordered) // 2], 1e-12)) or 1.0
    places = [
        (at * wide, high - 4 - min(max(value, 0.0) / top, 1.0) * (high - 10)) for at, value in known
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    area = f"M0,{high} L" + " L".join(f"{x:.1f},{y:.1f}" for x, y in places) + f" L{wide},{high} Z"
    return tag(
        "svg",
        tag("path", d=area, class_="area"),
        tag("polyline", points=line),
        viewBox=f"0 0 {wide} {high}",
        class_="shape yes" if is_bound else "shape no",
        role="img",
        aria_label="w over time",
        preserveAspectRatio="none",
    )

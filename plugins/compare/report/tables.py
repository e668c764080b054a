"""The tables of measurements: which columns they have, and how each is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from ..decimals import Column
from ..differences import leads
from ..presentation import (
    best_of,
    column_of,
    condition_of,
    floor_of,
    heading_of,
    knows_nothing_of,
    knows_nothing_words,
    shown_measurements,
)


@attrs.frozen(kw_only=True)
class Shown:
    """A measurement of all models: a column of one table, a row of another."""

    name: str
    title: str
    column: Column
    way: str = ""  # an arrow to where it is better
    best: int | None = None  # the group that does best, beyond the noise of seeds
    protocol: str = ""  # what it is of
    floor: str = ""  # what real data get


def measurements(results: Mapping[str, Any]) -> dict[str, Any]:
    """The table of measurements, with what real data and a model that knows nothing get."""
    best = {name: k for name, k in best_of(results).items() if leads(results, name, k)}
    columns = [
        Shown(
            name=name,
            title=heading_of(results, name),
            column=column_of(results, name),
            way={"lower": " ↓", "higher": " ↑"}.get(_said(results, name, "better") or "", ""),
            best=best.get(name),
            protocol=_protocol(results, name),
        )
        for name in shown_measurements(results)
    ]
    beside = []
    for title, of in (("real data", floor_of), (knows_nothing_words(results), knows_nothing_of)):
        cells = [_written(one.column, of(results, one.name)) for one in columns]
        if any(cells):
            beside.append((title, cells))
    return {"columns": columns, "beside": beside, "condition": condition_of(results)}


def differences(results: Mapping[str, Any]) -> list[Shown] | None:
    """The columns of differences to the first model, if there are seeds to compare."""
    if results["differences"] is None:
        return None
    groups = results["differences"]["groups"]
    return [
        Shown(
            name=name,
            title=heading_of(results, name),
            column=Column.of(group.get(name) for group in groups),
        )
        for name in shown_measurements(results)
        if any(name in group for group in groups)
    ]


def details(results: Mapping[str, Any]) -> list[Shown]:
    """Every measurement of every group, those without a column too."""
    found = []
    for name in dict.fromkeys(n for group in results["groups"] for n in group["figures"]):
        column = column_of(results, name)
        floor = _written(column, floor_of(results, name))
        found.append(Shown(name=name, title=heading_of(results, name), column=column, floor=floor))
    return found


def _written(column: Column, value: float | None) -> str:
    return "" if value is None else column.plain(value)


def _said(results: Mapping[str, Any], name: str, key: str) -> Any:
    """What the first group that has a measurement says of it."""
    having = [g["figures"][name] for g in results["groups"] if name in g["figures"]]
    return having[0][key] if having else None


def _protocol(results: Mapping[str, Any], name: str) -> str:
    of: Mapping[str, Any] = {}
    for group in results["groups"]:
        of = group["figures"].get(name, {}).get("of") or of
    return ", ".join(
        f"{key.replace('_', ' ')}: {number(v) if isinstance(v, float) else v}"
        for key, v in of.items()
        if v is not None
    )


def amount(value: Any) -> str:
    """A budget for people."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return number(value) if isinstance(value, float) else str(value)


def number(value: float) -> str:
    """A number for people, four digits that count."""
    return "0" if value == 0 else f"{value:.{2 if abs(value) < 1e-3 else 4}g}"

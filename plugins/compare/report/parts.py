"""Small pieces that several sections of the page use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..decimals import Column
from .markup import Markup, tag


def section(title: str, identity: str, *children: Any, lead: Any = None) -> Markup:
    """A part of the page, with a title and a few words to begin with."""
    shown = tag("p", lead, class_="lead") if lead is not None else None
    return tag("section", tag("h2", title), shown, *children, id=identity)


def swatch(k: int) -> Markup:
    """The colour of group k."""
    return tag("i", class_=f"swatch c{k % 8} d{k // 8}", aria_hidden="true")


def value_cell(column: Column, figure: Mapping[str, Any] | None, *, is_best: bool) -> Markup:
    """A figure with its spread, as a cell of a table."""
    value = column.value(figure)
    if figure is None or value is None:
        return tag("td", "–", class_="none")
    spread = column.spread(figure)
    tail = None if spread is None else tag("small", f"± {spread}")
    shown = tag("b" if is_best else "span", value)
    mark = tag("span", "vacuous", class_="badge no") if figure.get("vacuous") else None
    return tag("td", shown, tail, mark, class_="best" if is_best else None)


def number(value: float, digits: int = 4) -> str:
    """A number for people."""
    if value == 0:
        return "0"
    if abs(value) < 1e-3:
        return f"{value:.{min(digits, 2)}g}"
    return f"{value:.{digits}g}"

"""Small pieces that several sections of the page use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .markup import Markup, tag


def section(title: str, identity: str, *children: Any, lead: Any = None) -> Markup:
    """A part of the page, with a title and a few words to begin with."""
    shown = tag("p", lead, class_="lead") if lead is not None else None
    return tag("section", tag("h2", title), shown, *children, id=identity)


def swatch(k: int) -> Markup:
    """The colour of group k."""
    return tag("i", class_=f"swatch c{k % 8} d{k // 8}", aria_hidden="true")


def value_cell(figure: Mapping[str, Any] | None, *, is_best: bool) -> Markup:
    """A figure with its spread, as a cell of a table."""
    if figure is None or figure["mean"] is None:
        return tag("td", "–", class_="none")
    spread = figure["sd"] if figure["sd"] is not None else figure["standard_error"]
    tail = tag("small", f"± {number(spread, 2)}") if spread is not None else None
    shown = tag("b", number(figure["mean"])) if is_best else tag("span", number(figure["mean"]))
    return tag("td", shown, tail, class_="best" if is_best else None)


def number(value: float, digits: int = 4) -> str:
    """A number for people."""
    if value == 0:
        return "0"
    if abs(value) < 1e-3:
        return f"{value:.{min(digits, 2)}g}"
    return f"{value:.{digits}g}"

"""Markup that cannot be broken by what it contains: text is escaped unless it is markup already."""

from __future__ import annotations

from html import escape
from typing import Any


class Markup(str):
    """Text that is HTML."""

    __slots__ = ()


_EMPTY = frozenset({"br", "img", "input", "meta", "line", "path", "polyline", "circle"})


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """``<name key="value">children</name>``; ``class_`` is class, ``data_x`` is data-x.

    A child is Markup, a list of children, None (nothing) or text, which is escaped; an attribute
    that is None or False is left out.
    """
    words = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        said = key.rstrip("_").replace("_", "-")
        words.append(f" {said}" if value is True else f' {said}="{escape(str(value), quote=True)}"')
    opened = f"<{name}{''.join(words)}"
    if name in _EMPTY:
        return Markup(f"{opened} />")  # SVG wants the slash, HTML does not mind it
    return Markup(f"{opened}>{joined(*children)}</{name}>")


def joined(*children: Any) -> Markup:
    """Children one after another."""
    return Markup("".join(_shown(child) for child in children))


def _shown(child: Any) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, list | tuple):
        return joined(*child)
    return escape(str(child), quote=False)

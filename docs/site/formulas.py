"""Formulas of the pages as MathML, which browsers show by themselves: no script, no fonts."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_MARKED = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">'
    r"(?:\\\((?P<inline>.*?)\\\)|\\\[(?P<display>.*?)\\\])</(?P=tag)>",
    re.DOTALL,
)


def on_page_content(content: str, **_: Any) -> str:
    """Every marked formula of a page, typeset."""
    return _MARKED.sub(_typeset, content)


def _typeset(found: re.Match[str]) -> str:
    display = found["display"] is not None
    text = html.unescape(found["display"] if display else found["inline"]).strip()
    return convert(text, display="block" if display else "inline")

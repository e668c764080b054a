"""Formulas as MathML, which browsers show without a script or a font."""

from __future__ import annotations

import re

from latex2mathml.converter import convert

_CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
_FORMULA = re.compile(r"\$\$(?P<display>.+?)\$\$|\$(?P<inline>[^$\n]+?)\$", re.DOTALL)


def typeset(page: str) -> str:
    """A page of Markdown with its formulas as MathML; code stays as it is."""
    parts = _CODE.split(page)
    parts[::2] = [_FORMULA.sub(_mathml, part) for part in parts[::2]]
    return "".join(parts)


def _mathml(found: re.Match[str]) -> str:
    display = found["display"]
    if display is not None:
        return convert(" ".join(display.split()), display="block")
    return convert(found["inline"].strip(), display="inline")

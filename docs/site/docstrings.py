"""Docstrings as the site shows them: no roles, and comments beside fields as their text."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod|data|attr):`~?([^`]+)`")
_COMMENT = re.compile(r"#\s(?!noqa|type:)(.*)")


class Docstrings(griffe.Extension):
    """What mkdocstrings reads, made Markdown."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Every module, class, function and attribute as it is found."""
        if obj.is_attribute and obj.docstring is None and (said := _beside(obj)):
            obj.docstring = griffe.Docstring(said, parent=obj)
        if obj.docstring is not None:
            obj.docstring.value = _ROLE.sub(r"`\1`", obj.docstring.value)


def _beside(attribute: griffe.Object) -> str:
    """The comment at the end of an attribute's line, as in ``x: Tensor  # [B, *D]``."""
    lines = attribute.lines
    found = _COMMENT.search(lines[0]) if lines else None
    return "" if found is None else found[1].strip()

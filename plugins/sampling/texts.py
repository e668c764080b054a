"""Text samples as printable text."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import category


def readable(text: str) -> str:
    """Replace control characters, which a terminal would execute, by ``�``."""
    return "".join(c if c in "\n\t" or category(c) != "Cc" else "\ufffd" for c in text)


def numbered(texts: Sequence[str]) -> str:
    """Join texts, each under a line with its number."""
    return "".join(f"--- sample {k}\n{readable(one)}\n" for k, one in enumerate(texts))

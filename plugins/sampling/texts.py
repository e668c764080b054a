"""Samples that are text, for people to read."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import category


def readable(text: str) -> str:
    """A text without characters that a terminal would act on: these are shown as ``�``."""
    return "".join(c if c in "\n\t" or category(c) != "Cc" else "\ufffd" for c in text)


def numbered(texts: Sequence[str]) -> str:
    """Texts below each other, each under a line with its number."""
    return "".join(f"--- sample {k}\n{readable(one)}\n" for k, one in enumerate(texts))

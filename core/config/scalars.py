"""Scalars, each from its own type only: true is no 1, "5" no number."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _boolean(given: Any) -> bool | None:
    return given if isinstance(given, bool) else None


def _integer(given: Any) -> int | None:
    whole = isinstance(given, numbers.Integral) and not isinstance(given, bool)
    return int(given) if whole else None


def _number(given: Any) -> float | None:
    real = isinstance(given, numbers.Real) and not isinstance(given, bool)
    return float(given) if real else None


def _text(given: Any) -> str | None:
    return given if isinstance(given, str) else None


def _path(given: Any) -> Path | None:
    return Path(given) if (isinstance(given, str) and given) or isinstance(given, Path) else None


SCALARS: dict[Any, Callable[[Any], Any]] = {
    bool: _boolean, int: _integer, float: _number, str: _text, Path: _path,
}  # fmt: skip


def is_number(text: str) -> bool:
    """Would the text be a number without its quotes?"""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_utf8(text: str) -> bool:
    """Can the text be written down?"""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

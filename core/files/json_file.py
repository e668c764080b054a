"""JSON out of files that anything may have happened to.

A file can be gone, a folder, cut short, not UTF-8, nested without end, or of another form than it
was written in. Whatever it is, the answer is a value or one sentence.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import ElbowroomError


class JSONFileError(ElbowroomError):
    """A file without the JSON that should be in it."""


def parse_json(text: str | bytes) -> Any:
    """The value in ``text``; whatever keeps it from being read is a ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: Path) -> Any:
    """The value in a file, or one sentence saying why it cannot be had."""
    try:
        return parse_json(path.read_bytes())
    except OSError as error:
        raise JSONFileError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise JSONFileError(f"{path} is not JSON: {error}") from None


def finite(value: Any) -> Any:
    """Plain data that strict JSON can say: NaN and infinities become None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def is_count(value: Any) -> bool:
    """Is it a whole number from 0 on? (``True`` is none.)"""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_number(value: Any) -> bool:
    """Is it a number? (``True`` is none.)"""
    return isinstance(value, int | float) and not isinstance(value, bool)

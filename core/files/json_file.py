"""JSON files, which may be missing or damaged: the result is a value or a one-line error."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import ElbowroomError


class JSONFileError(ElbowroomError):
    """A JSON file that cannot be read."""


def parse_json(text: str | bytes) -> Any:
    """The value in ``text``; every failure is a ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: Path) -> Any:
    """The value in a file; every failure is a JSONFileError."""
    try:
        return parse_json(path.read_bytes())
    except OSError as error:
        raise JSONFileError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise JSONFileError(f"{path} is not JSON: {error}") from None


def finite(value: Any) -> Any:
    """The value for strict JSON: NaN and infinities become None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def is_count(value: Any) -> bool:
    """Whether a value is a non-negative integer, not a boolean."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_number(value: Any) -> bool:
    """Whether a value is a number, not a boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool)

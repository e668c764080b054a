"""Values and types as text, for errors about configs."""

from __future__ import annotations

import enum
import inspect
import math
import reprlib
import types
from collections.abc import Mapping, MutableMapping, Sequence
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import attrs

from ..errors import ConfigError
from .schema import kind_of, options_of
from .yaml_reader import Trail

NO_HINT = (Any, object, inspect.Parameter.empty)
UNIONS = (Union, types.UnionType)
MAPPINGS = (dict, Mapping, MutableMapping)
COLLECTIONS = (list, tuple, Sequence, *MAPPINGS)
COMPONENT = "a name, or a mapping with 'name' and its options"
_WORDS: dict[Any, str] = {
    bool: "true or false", int: "an integer", float: "a number", str: "text", Path: "a path",
    type(None): "null", **dict.fromkeys(NO_HINT, "plain data"),
}  # fmt: skip


def bytes_in_words(size: float) -> str:
    """``1.5 GiB``."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"


def check_integer(name: str, given: Any, least: int) -> None:
    """Raise unless ``given`` is an integer of at least ``least`` and of at most 64 bits."""
    if isinstance(given, bool) or not isinstance(given, Integral) or given < least:
        raise ConfigError(f"{name}: got {show(given)}; allowed: an integer from {least} on")
    if int(given) >= 2**64:
        raise ConfigError(f"{name}: got {show(given)}; allowed: an integer below 2**64")


def check_path(name: str, given: Any) -> None:
    """Raise unless ``given`` is a path."""
    if not isinstance(given, str | PathLike) or "\0" in str(given):
        raise ConfigError(f"{name}: got {show(given)}; allowed: a path")


def dotted(trail: Trail) -> str:
    """``train.betas[1]``."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in trail)
    return text.removeprefix(".")


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60


def show(value: Any) -> str:
    """A given value as YAML text, shortened."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: ".inf", -math.inf: "-.inf"}.get(value, ".nan")
    return _SHORT.repr(value)


def describe(hint: Any) -> str:  # noqa: PLR0911  # one answer for each kind of annotation
    """The values that an annotation allows, as text."""
    if kind := kind_of(hint):
        return f"a {kind.replace('_', ' ')}: {COMPONENT}"
    if choices := list(map(show, choices_of(hint))):
        return " or ".join(choices) if len(choices) < 3 else f"one of {', '.join(choices)}"
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin is Annotated:
        return describe(arguments[0])
    if origin in UNIONS:
        return " or ".join(map(describe, arguments))
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        return f"a list of {len(arguments)} ({', '.join(map(describe, arguments))})"
    if origin in MAPPINGS:
        return "a mapping"
    if origin in COLLECTIONS:
        return f"a list ({describe(arguments[0])} each)" if arguments else "a list"
    if isinstance(origin, type) and attrs.has(origin):
        return f"a mapping with {', '.join(options_of(origin))}"
    return _WORDS.get(origin, str(hint))


def choices_of(hint: Any) -> dict[Any, Any]:
    """Written value -> value of a Literal or an Enum; empty for other types."""
    if get_origin(hint) is Literal:
        return {choice: choice for choice in get_args(hint)}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {member.value: member for member in hint}
    return {}


def reason(error: Exception, field: str = "", value: Any = None) -> str:
    """A validator's message; those of attrs begin with the field's name and end with the value."""
    text = str(error.args[0]) if error.args else type(error).__name__
    if field and text.startswith(f"'{field}' "):
        text = text.removeprefix(f"'{field}' ").removesuffix(f": {value}")
        return f"got {show(value)}; it {text}"
    return text

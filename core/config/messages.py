"""Values and types in words, as an error says them to whoever wrote the config."""

from __future__ import annotations

import enum
import inspect
import math
import reprlib
import types
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import attrs

from .schema import Unreadable, kind_of, options_of
from .yaml_reader import Trail

NO_HINT = (Any, object, inspect.Parameter.empty)
MAPPINGS = (dict, Mapping, MutableMapping)
COLLECTIONS = (list, tuple, Sequence, *MAPPINGS)
_WORDS: dict[Any, str] = {
    bool: "true or false", int: "an integer", float: "a number", str: "text", Path: "a path",
}  # fmt: skip


def bytes_in_words(size: float) -> str:
    """``1.5 GiB``."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"


def dotted(trail: Trail) -> str:
    """``train.betas[1]``."""
    text = ""
    for key in trail:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else str(key)
    return text


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60


def show(value: Any) -> str:
    """A given value as its writer would recognise it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: ".inf", -math.inf: "-.inf"}.get(value, ".nan")
    return _SHORT.repr(value)


def describe(hint: Any) -> str:  # noqa: PLR0911  # one answer for each kind of annotation
    """What an annotation allows, in words; text stands for itself."""
    if isinstance(hint, str):
        return hint
    if hint in NO_HINT:
        return "plain data"
    if hint is None or hint is type(None):
        return "null"
    if isinstance(hint, Unreadable):
        return hint.text
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(describe(argument) for argument in arguments)
    if origin is Literal:
        return _one_of(arguments)
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        return f"a list of {len(arguments)} ({', '.join(map(describe, arguments))})"
    if origin in COLLECTIONS:
        each = f" ({describe(arguments[0])} each)" if arguments and origin not in MAPPINGS else ""
        return f"a {'mapping' if origin in MAPPINGS else 'list'}{each}"
    if kind := kind_of(origin):
        return describe_component(kind)
    if origin in _WORDS:
        return _WORDS[origin]
    if isinstance(origin, type) and issubclass(origin, enum.Enum):
        return _one_of([member.value for member in origin])
    if isinstance(origin, type) and attrs.has(origin):
        return f"a mapping with {', '.join(options_of(origin).named)}"
    return str(hint)


def describe_component(kind: str) -> str:
    """What may be written for a component of a kind."""
    return f"a {kind.replace('_', ' ')}: a name, or a mapping with 'name' and its options"


def _one_of(choices: Sequence[Any]) -> str:
    return " or ".join(map(show, choices)) if len(choices) < 3 else (
        "one of " + ", ".join(map(show, choices))
    )  # fmt: skip


def reason(error: Exception, field: str, value: Any) -> str:
    """A validator's complaint; attrs' own begin with the field's name and end with the value."""
    text = str(error.args[0]) if error.args else type(error).__name__
    if field and text.startswith(f"'{field}' "):
        text = text.removeprefix(f"'{field}' ").removesuffix(f": {value}")
        return f"got {show(value)}; it {text}"
    return text

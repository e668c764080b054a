"""The JSON Schema (draft 2020-12) of a config, generated from its classes.

    a component   its name, a reference to code, or a mapping with ``name`` and its options
    a section     a mapping of its options
    an option     by its annotation

Only the process is required: other sections may be given on the command line.
"""

from __future__ import annotations

import enum
import inspect
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import attrs
from elbowroom import PluginError, installed
from elbowroom.config import config_class, kind_of, options_of
from elbowroom.registry import KINDS

Schema = dict[str, Any]

_SCALARS: Mapping[Any, Schema] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    Path: {"type": "string"},
    type(None): {"type": "null"},
}
_ELSEWHERE = {"type": "string", "pattern": "[:/]"}
"""A qualified name: ``distribution/name``, ``./file.py:Class``, ``module:Class``."""


def config_schema() -> Schema:
    """The schema of a config, without components that cannot be loaded."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "elbowroom config",
        **_section(config_class(installed())),
        "required": ["process"],
        "$defs": {
            name: _kind(name) for name, kind in KINDS.items() if kind.is_class and name != "section"
        },
    }


def _kind(kind: str) -> Schema:
    """The components of a kind, by name or with options."""
    ways: list[Schema] = []
    names = []
    for name, component in installed().components(kind).items():
        try:
            ways.append(_component(name, component.load()))
        except PluginError:  # shown by elbowroom plugins
            continue
        names.append(name)
    apart = {"type": "object", "properties": {"name": _ELSEWHERE}, "required": ["name"]}
    return {"anyOf": [{"enum": names}, _ELSEWHERE, *ways, apart]}


def _component(name: str, cls: type[Any]) -> Schema:
    section = _section(cls)
    section["properties"] = {"name": {"const": name}, **section["properties"]}
    return {**section, "required": ["name"]}


def _section(cls: type[Any]) -> Schema:
    options = options_of(cls)
    return {
        "type": "object",
        "description": " ".join(inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0].split()),
        "properties": {name: _option(option) for name, option in options.items()},
        "additionalProperties": False,
    }


def _option(option: Any) -> Schema:
    """The values of an option, including its default."""
    found, default = _value(option.hint), option.default()
    null = {"type": "null"}
    if default is None and found and null not in found.get("anyOf", ()):
        return {"anyOf": [found, null]}
    return found


def _value(hint: Any) -> Schema:  # noqa: PLR0911  # one return per kind of annotation
    if kind := kind_of(hint):
        return {"$ref": f"#/$defs/{kind}"}
    origin, inside = get_origin(hint) or hint, get_args(hint)
    if origin is Annotated:
        return _value(inside[0])
    if origin in (Union, types.UnionType):
        return {"anyOf": [_value(one) for one in inside]}
    if origin is Literal:
        return {"enum": list(inside)}
    if not isinstance(origin, type):
        return {}
    if issubclass(origin, enum.Enum):
        return {"enum": [one.value for one in origin]}
    if origin in _SCALARS:
        return dict(_SCALARS[origin])
    if issubclass(origin, Mapping):
        return {"type": "object"}
    if issubclass(origin, Sequence):
        return _items(origin, inside)
    return _section(origin) if attrs.has(origin) else {}


def _items(origin: Any, inside: tuple[Any, ...]) -> Schema:
    if issubclass(origin, tuple) and inside and inside[-1] is not Ellipsis:
        each = [_value(one) for one in inside]
        return {"type": "array", "prefixItems": each, "minItems": len(each), "items": False}
    return {"type": "array", **({"items": _value(inside[0])} if inside else {})}

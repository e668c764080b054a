"""Overrides: ``key.sub=value`` on top of a config, values in YAML.

process=gaussian            the whole component, whatever options it had
process.predict=v           one option; a plain name becomes a mapping with ``name``
train.betas=[0.9, 0.95]     any value
schedule=null               nothing there
weighting=./my.py:Mine      a file seen from the working folder, not from the config's
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

from ..errors import ConfigError
from .messages import show
from .reader import OverridePlace
from .schema import kind_of
from .spec import ComponentSpec, NotPlainError, describe_instance
from .yaml_reader import Document, Trail, read_yaml

_FILE = re.compile(r"\.{1,2}/.*\.py:[\w.]+")

Overrides = Iterable[str] | Mapping[str, Any]
"""``["train.steps=10"]``, or in Python ``{"train.steps": 10}``."""


def apply_overrides(
    document: Document, overrides: Overrides, defaults: Mapping[Trail, Any]
) -> Document:
    """``document`` with the overrides in it, each known as the place of what it set.

    ``defaults`` says what stands where nothing is written: a component's name, an empty section,
    or None where there is no component.
    """
    value, places = document.value, dict(document.places)
    for trail, new, label in _parsed(overrides):
        value = _set(value, trail, new, (), label=label, defaults=defaults)
        places = {at: place for at, place in places.items() if at[: len(trail)] != trail}
        places[trail] = label
        for n in range(1, len(trail)):  # what it brought into being on the way
            places.setdefault(trail[:n], label)
    return Document(value, places)


def _parsed(overrides: Overrides) -> Iterator[tuple[Trail, Any, str]]:
    if isinstance(overrides, str):
        raise ConfigError(f"overrides are a list of key=value, not the text {overrides!r}")
    if isinstance(overrides, Mapping):
        for key, value in overrides.items():
            label = OverridePlace(str(key))
            yield _trail(str(key), label), value, label
        return
    for text in overrides:
        key, equals, written = text.partition("=")
        label = OverridePlace(text if len(text) < 80 else text[:77] + "...")
        if not equals:
            raise ConfigError(f"{label}: an override is key=value, as in train.steps=100")
        if not written.strip():
            raise ConfigError(f"{label}: no value; {key}=null unsets, {key}='\"\"' is empty text")
        value = _seen_from_here(read_yaml(written, label, numbered=False).value)
        yield _trail(key, label), value, label


def _trail(key: str, label: str) -> Trail:
    words = tuple(key.strip().split("."))
    if not all(words):
        raise ConfigError(f"{label}: {key!r} is no path to a value; write it as in train.steps")
    return words


def _seen_from_here(value: Any) -> Any:
    """Component files on the command line are relative to where it is typed."""
    if isinstance(value, str) and _FILE.fullmatch(value):
        return str(Path.cwd() / value)
    if isinstance(value, dict):
        return {key: _seen_from_here(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_seen_from_here(item) for item in value]
    return value


def _opened(value: Any) -> Any:
    """A component or a section as a mapping whose values can be replaced."""
    if isinstance(value, str):  # a component by its name alone
        return {"name": value}
    if isinstance(value, ComponentSpec) and value.instance is None:
        return {"name": value.name, **value.options}
    if isinstance(value, ComponentSpec):
        return value.instance if value.given is None else value.given
    if kind_of(type(value)):  # made in Python: another one of its class, if it can be described
        with suppress(NotPlainError):
            return describe_instance(value)
    elif attrs.has(type(value)):
        return {f.alias: getattr(value, f.name) for f in attrs.fields(type(value)) if f.init}
    return value


def _set(
    current: Any, rest: Trail, new: Any, at: Trail, *, label: str, defaults: Mapping[Trail, Any]
) -> Any:
    """``current``, which stands at ``at``, with ``new`` further down at ``rest``."""
    if not rest:
        return new
    key, rest = rest[0], rest[1:]
    here = ".".join(map(str, at))
    current = _opened(current)
    if isinstance(current, list):
        if not (str(key).isdecimal() and int(key) < len(current)):
            raise ConfigError(f"{label}: {here} has {len(current)} items, 0 is the first")
        index = int(key)
        changed = _set(current[index], rest, new, (*at, index), label=label, defaults=defaults)
        return [*current[:index], changed, *current[index + 1 :]]
    if current is None and at in defaults:
        raise ConfigError(f"{label}: there is no {here} to change; name one first: {here}=NAME")
    if current is None:
        current = {}
    if not isinstance(current, Mapping):
        raise ConfigError(f"{label}: {here} is {show(current)}, which has no {key!r} to change")
    below = (*at, key)
    inner = current.get(key, defaults.get(below))
    return {**current, key: _set(inner, rest, new, below, label=label, defaults=defaults)}

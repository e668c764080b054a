"""Overrides: ``key.sub=value`` on top of a config, values in YAML.

process=gaussian            the whole component, whatever options it had
process.predict=v           one option; a plain name becomes a mapping with ``name``
train.betas=[0.9, 0.95]     any value
schedule=null               nothing there
weighting=./my.py:Mine      a file relative to the working folder, not to the config's
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import attrs

from ..errors import ConfigError
from ..registry.reference import is_reference
from .messages import dotted, show
from .reader import OverridePlace
from .schema import kind_of
from .spec import ComponentSpec, NotPlainError, to_plain
from .yaml_reader import Document, Trail, read_yaml

Overrides = Iterable[str | tuple[str, Any]] | Mapping[str, Any]
"""``["train.steps=10"]``, or in Python ``{"train.steps": 10}`` and ``[("train.steps", 10)]``."""


def merge_overrides(sections: Mapping[str, Any], overrides: Overrides) -> Overrides:
    """Sections that replace whole ones, then single values."""
    if not sections:
        return overrides
    given = overrides.items() if isinstance(overrides, Mapping) else overrides
    return [*sections.items(), *given]


def apply_overrides(
    document: Document, overrides: Overrides, *, keep_options: bool = False
) -> Document:
    """``document`` with the overrides in it, each recorded as the place of what it set.

    With ``keep_options`` an override that names a class the document names too, wherever its code
    is, changes the name and keeps the options.
    """
    value, places = document.value, dict(document.places)
    for trail, new, place in _parsed(overrides):
        if keep_options and trail[-1] != "name" and _same_class(new, _at(value, trail)):
            trail = (*trail, "name")  # noqa: PLW2901  # the options stay
        places = {at: known for at, known in places.items() if at[: len(trail)] != trail}
        value = _set(value, trail, 0, new, place, places)
    return Document(value, places)


def _parsed(overrides: Overrides) -> Iterator[tuple[Trail, Any, OverridePlace]]:
    if isinstance(overrides, str) or not isinstance(overrides, Iterable):
        raise ConfigError(f"overrides are a list of key=value, not {show(overrides)}")
    for text in overrides.items() if isinstance(overrides, Mapping) else overrides:
        if isinstance(text, tuple):
            place = OverridePlace(f"override {text[0]}")
            yield _trail(str(text[0]), place), text[1], place
            continue
        if not isinstance(text, str):
            raise ConfigError(f"an override is key=value, not {show(text)}")
        key, equals, written = text.partition("=")
        place = OverridePlace(f"override {text if len(text) < 80 else text[:77] + '...'}")
        if not equals:
            raise ConfigError(f"{place}: an override is key=value, as in train.steps=100")
        if not written.strip():
            raise ConfigError(f"{place}: no value; {key}=null unsets, {key}='\"\"' is empty text")
        yield _trail(key, place), read_yaml(written, place, numbered=False).value, place


def _at(value: Any, trail: Trail) -> Any:
    """The value at a trail, None where there is none."""
    for key in trail:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _same_class(new: Any, recorded: Any) -> bool:
    """Whether a class, or a reference to one, has the name of the class in ``recorded``."""
    name = recorded.get("name") if isinstance(recorded, Mapping) else recorded
    if not isinstance(name, str) or not is_reference(name):
        return False
    is_code = isinstance(new, str) and is_reference(new)
    wanted = new.rpartition(":")[2] if is_code else getattr(new, "__name__", None)
    return bool(wanted == name.rpartition(":")[2])


def _trail(key: str, place: str) -> Trail:
    words = tuple(key.strip().split("."))
    if not all(words):
        raise ConfigError(f"{place}: {key!r} is no path to a value; write it as in train.steps")
    return words


def _set(
    current: Any, trail: Trail, depth: int, new: Any, place: str, places: dict[Trail, str]
) -> Any:
    """``current``, at ``depth`` of the trail, with ``new`` at the trail's end."""
    at, rest = trail[:depth], trail[depth:]
    if not rest:
        places[at] = place
        return new
    if current is None:  # created by the override
        places[at] = place
    opened = _opened(current)
    if not isinstance(opened, Mapping):
        current_value = f"{dotted(at)} is {show(opened)}"
        raise ConfigError(f"{place}: {current_value}, which has no {rest[0]!r} to change")
    inner = _set(opened.get(rest[0]), trail, depth + 1, new, place, places)
    return {**opened, rest[0]: inner}


def _opened(value: Any) -> Any:
    """A component or a section as a mapping whose values can be replaced."""
    if value is None:
        return {}
    if isinstance(value, str):  # a component by its name alone
        return {"name": value}
    if isinstance(value, ComponentSpec) and value.instance is None:
        return {"name": value.name, **value.options}
    if isinstance(value, ComponentSpec) or kind_of(type(value)):
        with suppress(NotPlainError):  # made in Python: another one of its class
            return to_plain(value)
    elif attrs.has(type(value)):
        return {f.alias: getattr(value, f.name) for f in attrs.fields(type(value)) if f.init}
    return value

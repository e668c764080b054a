"""YAML as written by people: the 1.2 core schema, read safely, every value with its line.

    1e-3  is a number        no, on, off, yes  are text        2024-01-01  is text
    0o17  is fifteen         only true and false are booleans

Refused: duplicate keys, tags, more than one document, keys that are not words or whole numbers,
and anything too large or too deep to have been written by hand (an alias counts as a copy).

The parser's events are read directly, with no object made for a node: depth and size are known
before they cost anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import attrs
import yaml

from ..errors import ConfigError

Trail = tuple["str | int", ...]
"""The way to a value: ``("train", "betas", 1)``."""

MAX_BYTES = 2**20
MAX_DEPTH = 32
MAX_VALUES = 20_000

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_INTEGER = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITY = re.compile(r"([-+]?)\.(inf|Inf|INF)")
_NOT_A_NUMBER = frozenset({".nan", ".NaN", ".NAN"})


@attrs.frozen
class Document:
    """A value, and where each part of it was written."""

    value: Any
    places: Mapping[Trail, str]  # trail -> "file.yaml:3"; () -> "file.yaml"


def read_file(path: Path) -> str:
    """The text of a config file, or one sentence saying why it cannot be had."""
    try:
        if path.is_dir():
            raise ConfigError(f"{path} is a directory; a config is a YAML file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"cannot read {path}: {reason}") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path} is larger than 1 MiB: it is not a config")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path} is not UTF-8 text: byte {error.start} is 0x{data[error.start]:02x}"
        ) from None


def read_yaml(text: str, name: str, *, numbered: bool = True) -> Document:
    """The one document in ``text``; ``name`` is what errors call it, with lines if ``numbered``.

    An empty text is null.
    """
    if len(text) > MAX_BYTES:
        raise ConfigError(f"{name} is larger than 1 MiB: it is not a config")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{name} is not UTF-8 text: character {error.start}") from None
    builder = _Builder(name, numbered, yaml.parse(text, Loader=_LOADER))
    try:
        return Document(builder.document(), builder.places)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark and numbered else ""
        raise ConfigError(f"{name}{where}: not YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{name}: not YAML: {reason}") from None


def resolve(text: str) -> Any:  # noqa: PLR0911  # one answer for each type
    """What an unquoted scalar means in the core schema. ValueError: a number beyond reading."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _INTEGER.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    if infinity := _INFINITY.fullmatch(text):
        return float(f"{infinity[1]}inf")
    if text in _NOT_A_NUMBER:
        return float("nan")
    return text


def write_yaml(value: Any) -> str:
    """``value`` as YAML that reads back equal; components on one line where they fit."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


# libyaml's parser where PyYAML was built with it: the same events, much faster.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Builder:
    """Turns parser events into values."""

    def __init__(self, name: str, numbered: bool, events: Iterator[Any]) -> None:
        self.name = name
        self.numbered = numbered
        self.events = events
        self.places: dict[Trail, str] = {(): name}
        self.anchors: dict[str, tuple[Any, int, int]] = {}  # name -> value, size, height
        self.size = 0
        self.height = 0

    def document(self) -> Any:
        value = None
        for n, event in enumerate(e for e in self.events if not isinstance(e, _STREAM)):
            if isinstance(event, yaml.DocumentStartEvent) and n > 0:
                self.refuse(event, "a second document; a config is one")
            if isinstance(event, yaml.NodeEvent):
                value = self.value(event, (), 0)
        return value

    def place(self, event: Any) -> str:
        return f"{self.name}:{event.start_mark.line + 1}" if self.numbered else self.name

    def refuse(self, event: Any, problem: str) -> NoReturn:
        raise ConfigError(f"{self.place(event)}: {problem}")

    def grow(self, event: Any, size: int, depth: int) -> None:
        self.size += size
        if self.size > MAX_VALUES:
            self.refuse(event, f"more than {MAX_VALUES} values: it is not a config")
        if depth > MAX_DEPTH:
            self.refuse(event, f"nested more than {MAX_DEPTH} deep: it is not a config")

    def value(self, event: Any, trail: Trail, depth: int) -> Any:
        """The value that begins with ``event``."""
        if trail:
            self.places[trail] = self.place(event)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor is None or event.anchor not in self.anchors:
                self.refuse(event, f"no anchor '{event.anchor}' before this alias")
            value, size, height = self.anchors[event.anchor]
            self.grow(event, size, depth + height)
            self.height = height
            return value
        if event.tag is not None:
            self.refuse(event, f"a tag ('{event.tag}'); a config has plain values only")
        before = self.size
        self.grow(event, 1, depth)
        if isinstance(event, yaml.ScalarEvent):
            value, height = self.scalar(event), 0
        elif isinstance(event, yaml.SequenceStartEvent):
            value, height = self.sequence(trail, depth)
        else:
            value, height = self.mapping(trail, depth)
        if event.anchor is not None:  # known only from here on: an anchor cannot hold itself
            self.anchors[event.anchor] = (value, self.size - before, height)
        self.height = height
        return value

    def scalar(self, event: Any) -> Any:
        if event.style:  # quoted or a block: text as it stands
            return event.value
        try:
            return resolve(event.value)
        except ValueError:  # Python reads no integer of thousands of digits
            self.refuse(event, f"a number of {len(event.value)} digits")

    def sequence(self, trail: Trail, depth: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        height = 0
        for event in iter(lambda: next(self.events), None):
            if isinstance(event, yaml.SequenceEndEvent):
                break
            items.append(self.value(event, (*trail, len(items)), depth + 1))
            height = max(height, self.height)
        return items, height + 1

    def key(self, event: Any) -> str | int:
        if not isinstance(event, yaml.ScalarEvent) or event.tag is not None:
            self.refuse(event, "a key must be a word")
        key = self.scalar(event)
        if isinstance(key, bool) or not isinstance(key, str | int):
            self.refuse(event, f"the key {event.value!r} must be a word: put it in quotes")
        return key

    def mapping(self, trail: Trail, depth: int) -> tuple[dict[str | int, Any], int]:
        pairs: dict[str | int, Any] = {}
        height = 0
        for event in iter(lambda: next(self.events), None):
            if isinstance(event, yaml.MappingEndEvent):
                break
            key = self.key(event)
            if key in pairs:
                self.refuse(event, f"the key '{key}' is given twice")
            at = (*trail, key)
            pairs[key] = self.value(next(self.events), at, depth + 1)
            self.places[at] = self.place(event)
            height = max(height, self.height)
        return pairs, height + 1


_STREAM = (yaml.StreamStartEvent, yaml.StreamEndEvent, yaml.DocumentEndEvent)


class _Dumper(yaml.SafeDumper):
    """Writes for a 1.2 reader: PyYAML itself would leave the text "1e-3" without quotes."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    try:
        # what cannot be printed (a line separator, say) survives only as an escape
        safe = resolve(text) is text and text.isprintable()
    except ValueError:
        safe = False
    style = None if safe else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _write_mapping(dumper: yaml.SafeDumper, value: Mapping[Any, Any]) -> yaml.Node:
    one_line = "name" in value and len(repr(value)) < 90
    return dumper.represent_mapping(
        "tag:yaml.org,2002:map", value, flow_style=one_line or not value
    )


def _write_sequence(dumper: yaml.SafeDumper, value: list[Any]) -> yaml.Node:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=True)


_Dumper.add_representer(str, _write_text)
_Dumper.add_representer(dict, _write_mapping)
_Dumper.add_representer(list, _write_sequence)

"""YAML 1.2 core schema, read safely, every value with its line.

    1e-3  is a number        no, on, off, yes  are text        2024-01-01  is text
    0o17  is fifteen         only true and false are booleans

Refused: duplicate keys, tags of other types, more than one document, and keys that are not words or
whole numbers. An alias is a copy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import attrs
import yaml

from ..errors import ConfigError

Trail = tuple["str | int", ...]
"""The keys of a value: ``("train", "betas", 1)``."""

_TAG = "tag:yaml.org,2002:"
_CORE = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
}
"""What an unquoted scalar means; all else is text."""

_PLAIN = {*_CORE, "str", "seq", "map"}
_RESOLVERS = {None: [(_TAG + name, re.compile(rf"({form})\Z")) for name, form in _CORE.items()]}


@attrs.frozen
class Document:
    """A value, and where each part of it was written."""

    value: Any
    places: Mapping[Trail, str]  # trail -> "file.yaml:3"; () -> "file.yaml"


def read_file(path: Path) -> str:
    """The text of a config file; every failure is a ConfigError."""
    try:
        if path.is_dir():
            raise ConfigError(f"{path} is a directory; a config is a YAML file")
        data = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"cannot read {path}: {reason}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path} is not UTF-8 text: byte {error.start} is 0x{data[error.start]:02x}"
        ) from None


def is_utf8(text: str) -> bool:
    """Whether the text can be encoded as UTF-8."""
    return text.encode(errors="ignore").decode() == text


def is_number(text: str) -> bool:
    """Whether the text would be a number without quotes."""
    return re.fullmatch(f"{_CORE['int']}|{_CORE['float']}", text) is not None


def read_yaml(text: str, name: str, *, numbered: bool = True) -> Document:
    """The one document in ``text``; ``name`` is what errors call it, with lines if ``numbered``.

    An empty text is null.
    """
    if not is_utf8(text):
        raise ConfigError(f"{name} is not UTF-8 text")
    reading = _Reading(name, numbered)
    try:
        return Document(reading.document(text), reading.places)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark and numbered else ""
        problem = ", ".join(filter(None, (error.context, error.problem)))
        raise ConfigError(f"{name}{where}: not YAML: {problem}") from None
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{name}: not YAML: {reason}") from None
    except RecursionError:
        raise ConfigError(f"{name}: nested too deep") from None


def write_yaml(value: Any) -> str:
    """``value`` as YAML that reads back equal; components on one line where they fit."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


# libyaml's parser where PyYAML was built with it: the same nodes, much faster.
class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    yaml_implicit_resolvers: Any = _RESOLVERS


@attrs.define
class _Reading:
    """From text to values."""

    name: str
    numbered: bool
    places: dict[Trail, str] = attrs.Factory(dict)

    def document(self, text: str) -> Any:
        self.places[()] = self.name
        root = yaml.compose(text, Loader=_Loader)
        return None if root is None else self.value(root, ())

    def place(self, at: Any) -> str:
        return f"{self.name}:{at.start_mark.line + 1}" if self.numbered else self.name

    def refuse(self, at: Any, problem: str) -> NoReturn:
        raise ConfigError(f"{self.place(at)}: {problem}")

    def value(self, node: Any, trail: Trail) -> Any:
        if node.tag.removeprefix(_TAG) not in _PLAIN:
            self.refuse(node, f"a tag ('{node.tag}'); a config has plain values only")
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.part(item, (*trail, n), item) for n, item in enumerate(node.value)]
        pairs: dict[str | int, Any] = {}
        for key_node, item in node.value:
            key = self.key(key_node)
            if key in pairs:
                self.refuse(key_node, f"the key '{key}' is given twice")
            pairs[key] = self.part(item, (*trail, key), key_node)
        return pairs

    def part(self, node: Any, trail: Trail, written: Any) -> Any:
        self.places[trail] = self.place(written)
        return self.value(node, trail)

    def key(self, node: Any) -> str | int:
        if not isinstance(node, yaml.ScalarNode):
            self.refuse(node, "a key must be a word")
        key = self.scalar(node)
        if type(key) not in (str, int):
            self.refuse(node, f"the key {node.value!r} must be a word: put it in quotes")
        return key  # type: ignore[no-any-return]  # one of the two

    def scalar(self, node: Any) -> Any:
        text, kind = node.value, node.tag.removeprefix(_TAG)
        if kind == "null":
            return None
        if kind == "bool":
            return text in ("true", "True", "TRUE")
        try:
            if kind == "float":
                return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
            return int(text, 0 if text[:2] in ("0o", "0x") else 10) if kind == "int" else text
        except ValueError:  # a wrong tag, or an integer of thousands of digits
            self.refuse(node, f"'{text[:40]}' cannot be read as a number")


class _Dumper(yaml.SafeDumper):
    """Writes for a 1.2 reader: PyYAML itself would leave the text "1e-3" without quotes."""

    yaml_implicit_resolvers: Any = _RESOLVERS

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    # what cannot be printed (a line separator, say) survives only as an escape
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar(_TAG + "str", text, style=style)


def _write_mapping(dumper: yaml.SafeDumper, value: Mapping[Any, Any]) -> yaml.Node:
    one_line = "name" in value and len(repr(value)) < 90
    return dumper.represent_mapping(_TAG + "map", value, flow_style=one_line or not value)


def _write_sequence(dumper: yaml.SafeDumper, value: list[Any]) -> yaml.Node:
    return dumper.represent_sequence(_TAG + "seq", value, flow_style=True)


_Dumper.add_representer(str, _write_text)
_Dumper.add_representer(dict, _write_mapping)
_Dumper.add_representer(list, _write_sequence)

"""Options of a comparison: ``key=value,value`` of --vary, and combinations of --skip."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
from elbowroom import ConfigError


@attrs.frozen
class Axis:
    """A config key and its values."""

    key: str
    values: tuple[str, ...]  # as they are typed after ``key=``

    @classmethod
    def parse(cls, text: str) -> Axis:
        """Parse ``process=gaussian,masked``; commas in brackets and quotes belong to a value."""
        key, equals, rest = text.partition("=")
        values = tuple(value.strip() for value in _split(rest))
        if not equals or not key.strip() or not all(values):
            raise ConfigError(f"--vary {text}: write --vary KEY=VALUE,VALUE,...")
        if key.strip() == "seed":
            raise ConfigError("--vary seed: use --seeds N")
        return cls(key.strip(), values)._checked()

    @classmethod
    def of(cls, key: str, values: Sequence[Any]) -> Axis:
        """An axis of Python values, written as they would be typed."""
        return cls(key, tuple(v if type(v) is str else json.dumps(v) for v in values))._checked()

    def _checked(self) -> Axis:
        twice = [value for value in self.values if self.values.count(value) > 1]
        if twice:
            text = f"{self.key}={','.join(self.values)}"
            raise ConfigError(f"--vary {text}: {twice[0]} is given twice")
        return self


def short_value(value: str) -> str:
    """Shorten ``{name: gaussian, predict: levels}`` to ``gaussian (predict: levels)``."""
    mapping = re.fullmatch(r"\{\s*name:\s*([^,{}]+?)\s*(?:,\s*(.+?)\s*)?\}", value)
    if mapping is None:
        return value
    name, options = mapping.groups()
    return f"{name} ({options})" if options else name


def parse_skip(text: str) -> dict[str, str]:
    """Parse ``process=gaussian weighting=simple``, a combination to leave out."""
    try:
        words = [word.partition("=") for word in shlex.split(text)]
    except ValueError as error:
        raise ConfigError(f"--skip {text}: {error}") from error
    if not words or not all(key and equals and value for key, equals, value in words):
        raise ConfigError(f"--skip {text}: write --skip 'KEY=VALUE KEY=VALUE'")
    return {key: value for key, _, value in words}


def _split(text: str) -> Iterator[str]:
    """Yield the parts between commas outside of brackets and quotes."""
    depth, quote, start = 0, "", 0
    for k, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "{[(":
            depth += 1
        elif letter in "}])":
            depth -= 1
        elif letter == "," and not depth:
            yield text[start:k]
            start = k + 1
    yield text[start:]

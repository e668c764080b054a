"""Presets: configs shipped as package data and named without a path.

A plugin announces them by the hook ``presets``, ours too. The first line of a preset is a comment
that says what it is for.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Protocol

import attrs

from ..errors import ConfigError
from ..registry.component import Owner

if TYPE_CHECKING:
    from ..registry.components import Registry


@attrs.frozen
class Preset:
    """A config with a name, and who supplies it."""

    name: str
    owner: Owner
    text: str = attrs.field(repr=False)
    problem: str | None = None  # why there is no text

    @property
    def description(self) -> str:
        """Its first comment."""
        if self.problem is not None:
            return f"cannot be read: {self.problem}"
        lines = (line.strip() for line in self.text.splitlines())
        return next((line.lstrip("# ") for line in lines if line.startswith("#")), "")


def presets(registry: Registry | None = None) -> dict[str, Preset]:
    """Every preset by the name that finds it, in order.

    elbowroom's own are never replaced: where a plugin has one of the same name, the plugin's is
    found as ``distribution/name``.
    """
    if registry is None:
        from ..registry.components import installed

        registry = installed()
    found = {}
    for name, (owner, location) in registry.presets().items():
        package, _, path = location.partition(":")
        try:
            file = resources.files(package).joinpath(*path.split("/"))
        except Exception as error:  # importing a plugin's package may raise anything
            found[name] = Preset(name, owner, "", f"{location}: {error}")
        else:
            found[name] = _read(name, owner, file)
    return found


def preset_text(preset: Preset) -> str:
    """The config itself, or why there is none."""
    if preset.problem is not None:
        raise ConfigError(f"preset '{preset.name}' of {preset.owner}: {preset.problem}")
    return preset.text


class _File(Protocol):
    def read_text(self, encoding: str) -> str: ...


def _read(name: str, owner: Owner, file: _File) -> Preset:
    try:
        return Preset(name, owner, file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        return Preset(name, owner, "", str(error))

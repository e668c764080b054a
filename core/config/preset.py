"""Presets: configs shipped as package data and named without a path.

A plugin announces them by the hook ``presets``. The first comment of a preset, except one for
editors (``# yaml-language-server: ...``), is its description.
"""

from __future__ import annotations

from importlib import resources

import attrs

from ..errors import ConfigError
from ..registry.component import Owner
from ..registry.components import Registry, installed

_FOR_EDITORS = "yaml-language-server:"


@attrs.frozen
class Preset:
    """A config with a name, and who supplies it."""

    name: str
    owner: Owner
    location: str  # package:path/in/package.yaml

    @property
    def text(self) -> str:
        """The config itself."""
        package, _, path = self.location.partition(":")
        try:
            return resources.files(package).joinpath(*path.split("/")).read_text("utf-8")
        except Exception as error:  # importing a plugin's package may raise anything
            whose = f"preset '{self.name}' of {self.owner}"
            raise ConfigError(f"{whose} cannot be read: {self.location}: {error}") from None

    @property
    def description(self) -> str:
        """Its first comment."""
        try:
            lines = map(str.strip, self.text.splitlines())
        except ConfigError as error:
            return str(error)
        comments = (line.lstrip("# ") for line in lines if line.startswith("#"))
        return next((text for text in comments if not text.startswith(_FOR_EDITORS)), "")


def presets(registry: Registry | None = None) -> dict[str, Preset]:
    """Every preset by the name that finds it, in order.

    elbowroom's own are never replaced: where a plugin has one of the same name, the plugin's is
    found as ``distribution/name``.
    """
    found = (registry or installed()).presets()
    return {name: Preset(name, owner, location) for name, (owner, location) in found.items()}

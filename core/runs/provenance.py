"""Provenance of a run: the supplier of each component, and versions."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Any

import attrs

from ..config.sections import Config
from ..config.spec import ComponentSpec, to_plain
from ..errors import ConfigError
from ..registry.component import Owner
from ..registry.reference import is_reference

_VERSIONS = ("elbowroom", "torch", "numpy", "safetensors")


def provenance(config: Config) -> dict[str, Any]:
    """The supplier of each component, by its path in the config, and versions."""
    return {
        "components": {path: owner.record() for path, owner in suppliers(config).items()},
        "versions": {"python": platform.python_version()}
        | {name: metadata.version(name) for name in _VERSIONS},
        "platform": platform.platform(),
    }


def code_overrides(config: Config) -> tuple[str, ...]:
    """Overrides that name the code of a config, for a run that was made from it."""
    named = [spec for spec in _specs(config) if spec.component and is_reference(spec.name)]
    return tuple(f"{spec.path}.name={json.dumps(spec.name)}" for spec in named)


def suppliers(config: Config) -> dict[str, Owner]:
    """Path of a component in the config -> its supplier."""
    return {spec.path: spec.component.owner for spec in _specs(config) if spec.component}


def check_importable(config: Config) -> None:
    """Refuse a config with a component that another program could not find."""
    to_plain(config)
    for spec in defined_in_script(config):
        cls = spec.name.partition(":")[2]
        raise ConfigError(
            f"{spec.path}: {cls} is defined in the script that runs, which no other program can "
            f"import: put it into a file of its own and import it (from my_code import {cls})"
        )


def defined_in_script(config: Config) -> list[ComponentSpec]:
    """Components whose code is that of the program that runs."""
    return [spec for spec in _specs(config) if spec.name.startswith("__main__:")]


def code_of(owners: Mapping[str, Owner]) -> dict[str, Any]:
    """The suppliers without versions: package, file and its hash."""
    return {key: (own.distribution, own.path, own.sha256) for key, own in owners.items()}


def _specs(value: Any) -> Iterator[ComponentSpec]:
    """Every component in a config, those inside others too."""
    if isinstance(value, ComponentSpec):
        yield value
        yield from _specs(dict(value.options))
    elif attrs.has(type(value)):
        for field in attrs.fields(type(value)):
            yield from _specs(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _specs(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _specs(item)

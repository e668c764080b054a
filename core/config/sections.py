"""The config: every choice of a run, in sections.

    data: digits
    process: masked            # swap this one word for gaussian
    weighting: simple
    denoiser: {name: uvit, width: 96, depth: 3}
    objective: {steps: null, times: stratified, normalise: batch}
    sampler: {name: ancestral, steps: 64}
    train: {steps: 1000, batch_size: 128, learning_rate: 1e-3}

A component is a name, or a mapping with ``name`` and its options; the options' schema is the
component's own constructor. Reading fills in every default, so that

    load_config(to_plain(config)) == config

and the config of a run is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import attrs
from attrs.validators import and_, ge, lt, optional

from ..errors import ConfigError, did_you_mean
from ..registry.components import Registry, installed
from .messages import show
from .override import Overrides, apply_overrides
from .preset import Preset, presets
from .reader import Reading, named_component
from .spec import ComponentSpec, to_plain
from .yaml_reader import Document, read_file, read_yaml, write_yaml

if TYPE_CHECKING:
    from ..registry.trust import Origin

__all__ = [
    "ComponentSpec",
    "Config",
    "ObjectiveSection",
    "Preset",
    "dump_yaml",
    "load_config",
    "named_component",
    "parse_spec",
    "presets",
    "to_plain",
]

_steps: Any = and_(ge(1), lt(2**31 - 1))  # noise is numbered by steps; the last one validates


@attrs.frozen(kw_only=True)
class ObjectiveSection:
    """How the bound is estimated."""

    steps: int | None = attrs.field(default=None, validator=optional(_steps))  # None: continuous
    times: Annotated[ComponentSpec, "time_sampler"] = attrs.field(
        metadata={"default": "stratified"}
    )
    path: Annotated[ComponentSpec, "path"] = attrs.field(metadata={"default": "shared"})
    normalise: Annotated[ComponentSpec, "normaliser"] = attrs.field(metadata={"default": "batch"})


@attrs.frozen(kw_only=True)
class Config:
    """A config, read by :func:`load_config`: the sections of core and of plugins (``train``)."""

    data: Annotated[ComponentSpec, "dataset"] | None = None
    process: Annotated[ComponentSpec, "process"]
    schedule: Annotated[ComponentSpec, "schedule"] | None = None  # None: the process's natural one
    weighting: Annotated[ComponentSpec, "weighting"] = attrs.field(metadata={"default": "elbo"})
    denoiser: Annotated[ComponentSpec, "denoiser"] | None = None
    objective: ObjectiveSection = attrs.field(metadata={"default": {}})
    sampler: Annotated[ComponentSpec, "sampler"] | None = None
    seed: int = attrs.field(default=0, validator=[ge(0), lt(2**64)])

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # sections of plugins
            ...


@lru_cache(8)
def config_class(registry: Registry) -> type[Config]:
    """The config with a section for each component of kind ``section``."""
    sections = {
        name: attrs.field(type=found.load(), metadata={"default": {}})
        for name, found in registry.components("section").items()
    }
    return attrs.make_class("Config", sections, bases=(Config,), frozen=True, kw_only=True)


Source: TypeAlias = str | PathLike[str] | Mapping[str, Any] | Config
"""A preset's name, a file, a mapping of sections, or a config already read."""


def load_config(
    source: Source,
    overrides: Overrides = (),
    registry: Registry | None = None,
    *,
    origin: Origin | None = None,
) -> Config:
    """Read a config and apply overrides.

    Args:
        source: A preset's name, a YAML file, a mapping of sections or a config. A text is a preset
            first: write ``./digits`` for a file of that name.
        overrides: ``["train.steps=10"]``, ``{"train.steps": 10}`` or pairs.
        registry: Where names are resolved (default: the installed plugins).
        origin: The run or export that the config belongs to. Code that it names is refused
            (elbowroom.registry.trust); an override that names the recorded class keeps its options.

    Returns:
        The config with every default filled in.

    Raises:
        ConfigError: With one line for each problem.
    """
    registry = registry or installed()
    document, base = _document(source, registry)
    document = apply_overrides(document, overrides, keep_options=origin is not None)
    reading = Reading(registry, base, document.places, origin)
    config: Config = reading.checked(reading.section, config_class(registry), document.value, ())
    return config


def dump_yaml(config: Config) -> str:
    """Return the resolved config as YAML, which ``load_config`` reads back."""
    return write_yaml(to_plain(config))


def parse_spec(text: str) -> str | Mapping[str, Any]:
    """A SPEC of the command line: a name, or an inline mapping like ``{name: sigmoid, k: 2}``."""
    text = text.strip()
    if not text:
        raise ConfigError("an empty SPEC; write a name, or {name: NAME, option: value}")
    if text[0] not in "{[" and ": " not in text:
        return text
    value = read_yaml(text, f"SPEC {text}", numbered=False).value
    if not isinstance(value, dict):
        raise ConfigError(f"SPEC {text} is neither a name nor {{name: NAME, option: value}}")
    return value


def _document(source: Source, registry: Registry) -> tuple[Document, Path | None]:
    """The written document, and the folder that its component files are relative to."""
    if isinstance(source, Config):
        return Document(attrs.asdict(source, recurse=False), {}), None
    if isinstance(source, Mapping):
        return Document(source, {}), None
    given: Any = source  # not checked by types at run time
    if not isinstance(given, str | PathLike):
        kinds = "a path, a preset's name or a mapping of sections"
        raise ConfigError(f"a config is {kinds}, not {show(given)}")
    known = presets(registry) if isinstance(source, str) else {}
    if source in known:
        return _read(known[str(source)].text, f"preset {source}"), None
    path = Path(source)
    if isinstance(source, str) and not _exists(path):
        near = did_you_mean(source.removesuffix(".yaml"), known)
        raise ConfigError(
            f"there is no preset and no file {source!r}{near}; looked for the file "
            f"{Path.cwd() / source}; presets: {', '.join(known)}"
        )
    return _read(read_file(path), str(path)), path.parent


def _read(text: str, name: str) -> Document:
    document = read_yaml(text, name)
    if document.value is None:
        raise ConfigError(f"{name} is empty; a config names at least a process")
    return document


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long, forbidden, or with a null character
        return True  # the error of reading it is precise

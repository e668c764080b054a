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

and what a run records says all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs
from attrs.validators import and_, deep_iterable, ge, gt, le, lt, optional

from ..errors import ConfigError, did_you_mean
from .messages import show
from .override import Overrides, apply_overrides
from .preset import Preset, preset_text, presets
from .reader import Reading, component_spec
from .spec import ComponentSpec, NotPlainError, plain
from .yaml_reader import Document, Trail, read_file, read_yaml, write_yaml

if TYPE_CHECKING:
    from ..registry.components import Registry
    from ..registry.trust import Origin

__all__ = [
    "ComponentSpec",
    "Config",
    "Objective",
    "Preset",
    "Train",
    "component_spec",
    "dump_yaml",
    "load_config",
    "parse_spec",
    "presets",
    "to_plain",
]


def _usual(kind: str, name: str) -> dict[str, Any]:
    """A field that holds a component: the one called ``name`` where a config has none."""
    return {"component": kind, "default": name}


def _maybe(kind: str) -> dict[str, Any]:
    """A field that holds a component or nothing."""
    return {"component": kind, "optional": True}


_share: Any = and_(ge(0), le(1))
_decay: Any = and_(ge(0), lt(1))
_count_or_none: Any = optional(ge(1))
_steps: Any = and_(ge(1), lt(2**31 - 1))  # noise is numbered by steps; the last one validates


@attrs.frozen(kw_only=True)
class Objective:
    """How the bound is estimated."""

    steps: int | None = attrs.field(default=None, validator=optional(_steps))  # None: continuous
    times: ComponentSpec = attrs.field(metadata=_usual("time_sampler", "stratified"))
    normalise: Literal["batch", "units"] = "batch"  # divide by examples, or by what was asked


@attrs.frozen(kw_only=True)
class Train:
    """How the network is fitted: AdamW, a warm-up, then a cosine down to zero."""

    steps: int = attrs.field(default=1000, validator=_steps)
    batch_size: int = attrs.field(default=128, validator=ge(1))  # over all ranks
    learning_rate: float = attrs.field(default=1e-3, validator=gt(0))
    warmup: int = attrs.field(default=100, validator=ge(0))
    betas: tuple[float, float] = attrs.field(default=(0.9, 0.99), validator=deep_iterable(_decay))
    weight_decay: float = attrs.field(default=0.03, validator=ge(0))
    clip_norm: float | None = attrs.field(default=None, validator=optional(gt(0)))
    ema: float = attrs.field(default=0.9999, validator=_decay)
    ema_warmup: bool = True  # at step n at most (1 + n) / (10 + n): for short runs
    label_dropout: float = attrs.field(default=0.0, validator=_share)  # for guidance
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    checkpoint_activations: bool = False
    parallel: Literal["ddp", "fsdp"] = "ddp"  # with several ranks
    log_every: int = attrs.field(default=50, validator=ge(1))
    save_every: int = attrs.field(default=500, validator=ge(1))
    keep: int = attrs.field(default=2, validator=ge(1))  # checkpoints beside the best one
    milestones: tuple[int, ...] = attrs.field(  # steps that are saved, kept for good and compared
        default=(), validator=deep_iterable(ge(1))
    )
    evaluate_every: int | None = attrs.field(default=500, validator=_count_or_none)  # None: never


@attrs.frozen(kw_only=True)
class Config:
    """Every choice of a run; without data, denoiser or sampler it says as much as it says."""

    data: ComponentSpec | None = attrs.field(default=None, metadata=_maybe("dataset"))
    process: ComponentSpec = attrs.field(metadata={"component": "process"})
    schedule: ComponentSpec | None = attrs.field(
        default=None, metadata=_maybe("schedule")
    )  # None: the process's natural one
    weighting: ComponentSpec = attrs.field(metadata=_usual("weighting", "elbo"))
    denoiser: ComponentSpec | None = attrs.field(default=None, metadata=_maybe("denoiser"))
    objective: Objective = attrs.field(metadata={"default": {}})
    sampler: ComponentSpec | None = attrs.field(default=None, metadata=_maybe("sampler"))
    train: Train = attrs.field(factory=Train)
    seed: int = attrs.field(default=0, validator=[ge(0), lt(2**64)])


def load_config(
    source: str | PathLike[str] | Mapping[str, Any] | Config,
    overrides: Overrides = (),
    registry: Registry | None = None,
    *,
    origin: Origin | None = None,
) -> Config:
    """The config of a file, of a preset's name, of a mapping or of another config, and overrides.

    A text is a preset's name before it is a file: write ``./digits`` for a file of that name.
    When a run or an export is loaded, ``origin`` says who supplied each component then and what of
    the code it names may be executed; all else is the user's own word.
    """
    if registry is None:
        from ..registry.components import installed

        registry = installed()
    document, base = _document(source, registry)
    document = apply_overrides(document, overrides, _STANDING)
    reading = Reading(registry, base, document.places, origin=origin)
    if isinstance(document.value, Mapping):
        config = reading.section(Config, document.value, ())
    else:
        config = reading.wrong((), f"got {show(document.value)}; a config is a mapping of sections")
    reading.finish()
    assert isinstance(config, Config)
    return config


def to_plain(config: Config) -> dict[str, Any]:
    """The resolved config: every default filled in, as YAML and JSON can say it."""
    try:
        return {field.name: plain(getattr(config, field.name)) for field in attrs.fields(Config)}
    except NotPlainError as error:
        raise ConfigError(
            f"this config cannot be written down: {error} was made in Python and its options are "
            "no plain data; name it, or give it options of plain types"
        ) from None


def dump_yaml(config: Config) -> str:
    """The resolved config as YAML."""
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


_STANDING: dict[Trail, Any] = {
    **{(field.name,): field.metadata.get("default") for field in attrs.fields(Config)},
    ("train",): {},
    ("objective", "times"): "stratified",
}
"""What an override finds where a config says nothing."""


def _document(
    source: str | PathLike[str] | Mapping[str, Any] | Config, registry: Registry
) -> tuple[Document, Path | None]:
    """What is written, and the folder its component files are relative to."""
    if isinstance(source, Config):
        values = {field.name: getattr(source, field.name) for field in attrs.fields(Config)}
        return Document(values, {}), None
    if isinstance(source, Mapping):
        return Document(source, {}), None
    if isinstance(source, str):
        known = presets(registry)
        if source in known:
            name = f"preset {source}"
            return _filled(read_yaml(preset_text(known[source]), name), name), None
        if not _exists(source):
            near = did_you_mean(source.removesuffix(".yaml"), known)
            raise ConfigError(
                f"there is no preset and no file {source!r}{near}; looked for the file "
                f"{Path.cwd() / source}; presets: {', '.join(known)}"
            )
    given: Any = source  # what is handed over need not be what is asked for
    if not isinstance(given, str | PathLike):
        kinds = "a path, a preset's name or a mapping of sections"
        raise ConfigError(f"a config is {kinds}, not {show(given)}")
    path = Path(source)
    name = str(path)
    return _filled(read_yaml(read_file(path), name), name), path.parent


def _filled(document: Document, name: str) -> Document:
    if document.value is None:
        raise ConfigError(f"{name} is empty; a config names at least a process")
    return document


def _exists(source: str) -> bool:
    try:
        return bool(source) and Path(source).exists()
    except (OSError, ValueError):  # too long, forbidden, or with a null character
        return True  # reading it says which

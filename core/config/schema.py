"""Options: a class's own constructor, read as the schema of its config.

    @attrs.frozen                                   {name: sigmoid, k: 2}
    class Sigmoid(Weighting):          <->
        k: float = 0.0

Works for attrs classes and for classes with a written ``__init__`` (networks) alike. Positional
parameters called ``signature`` or ``data`` are supplied by the framework and are no options.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import SimpleNamespace
from typing import Any, get_type_hints

import attrs

from ..errors import PluginError
from ..registry.kinds import KINDS

_KINDS = {kind.contract.replace(":", "."): kind.name for kind in KINDS.values()}
"""Contract class -> kind; by name, so that asking imports nothing."""

SUPPLIED = frozenset({"signature", "data"})

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Required:
    """The default of an option that has none."""


@attrs.frozen
class Unreadable:
    """An annotation that cannot be evaluated; ``text`` is what it says."""

    text: str


@attrs.frozen
class Option:
    """One parameter of a constructor."""

    name: str
    hint: Any
    default: Callable[[], Any] = lambda: Required
    attribute: attrs.Attribute[Any] | None = None  # for attrs classes: validators, metadata


@attrs.frozen
class Options:
    """What a class can be told."""

    named: Mapping[str, Option]
    rest: Option | None = None  # ``**options``: any other name


def kind_of(hint: Any) -> str | None:
    """``weighting`` for Weighting and its subclasses, None for what is no component."""
    if isinstance(hint, type):
        for base in hint.__mro__:
            if kind := _KINDS.get(f"{base.__module__}.{base.__qualname__}"):
                return kind
    return None


def options_of(cls: type[Any]) -> Options:
    """The options of a class, in the order its constructor names them."""
    fields = {f.alias: f for f in attrs.fields(cls) if f.init} if attrs.has(cls) else {}
    named: dict[str, Option] = {}
    rest = None
    if cls.__init__ is object.__init__:
        return Options({})
    try:
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    except (TypeError, ValueError):  # written in C: nothing to read
        return Options({})
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL or (p.kind in _POSITIONAL and p.name in SUPPLIED):
            continue
        if field := fields.get(p.name):
            named[p.name] = Option(p.name, _field_hint(cls, field), _field_default(field), field)
            continue
        hint = _resolve(p.annotation, getattr(cls.__init__, "__globals__", {}), cls)
        if p.kind is p.VAR_KEYWORD:
            rest = Option(p.name, hint)
        elif p.default is p.empty:
            named[p.name] = Option(p.name, hint)
        else:
            named[p.name] = Option(p.name, hint, _constant(p.default))
    if "name" in named:
        raise PluginError(
            f"{cls.__module__}:{cls.__qualname__} has an option called 'name', which a config uses "
            "for the component itself; its author must rename it"
        )
    return Options(named, rest)


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _field_default(field: attrs.Attribute[Any]) -> Callable[[], Any]:
    if "default" in field.metadata:  # what a config may leave out and Python may not
        return _constant(field.metadata["default"])
    default: Any = field.default
    if default is attrs.NOTHING:
        return _constant(Required)
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # typed as a function
        # one that reads the instance answers only when there is one: leave it to the class
        return _constant(attrs.NOTHING) if default.takes_self else default.factory
    return _constant(default)


def _field_hint(cls: type[Any], field: attrs.Attribute[Any]) -> Any:
    """A field's annotation, read where it was written: perhaps in a base class elsewhere."""
    for base in cls.__mro__:
        annotation = inspect.get_annotations(base).get(field.name)
        if annotation is not None:
            return _resolve(annotation, _globals_of(base), base)
    return inspect.Parameter.empty if field.type is None else field.type


def _globals_of(cls: type[Any]) -> dict[str, Any]:
    if cls.__module__ in sys.modules:
        return vars(sys.modules[cls.__module__])
    for member in vars(cls).values():  # a module loaded from a file and not kept
        names = getattr(member, "__globals__", {})
        if names.get("__name__") == cls.__module__:
            return dict(names)
    return {}


class _Names(dict[str, Any]):
    """A module's names, then those often imported for type checkers only."""

    def __init__(self, names: Mapping[str, Any], cls: type[Any]) -> None:
        super().__init__(names)
        self.cls = cls

    def __missing__(self, name: str) -> Any:
        for contract in _KINDS:
            module, _, public = contract.rpartition(".")
            if public == name:
                return getattr(import_module(module), name)
        for module in ("typing", "collections.abc", "pathlib"):
            if hasattr(import_module(module), name):
                return getattr(import_module(module), name)
        return vars(self.cls)[name]


def _resolve(annotation: Any, names: Mapping[str, Any], cls: type[Any]) -> Any:
    if annotation is inspect.Parameter.empty:
        return annotation
    holder = SimpleNamespace(__annotations__={"it": annotation})
    try:
        return get_type_hints(holder, globalns={}, localns=_Names(names, cls))["it"]
    except Exception:  # an annotation is code: whatever it raises, it says nothing to a config
        return Unreadable(str(annotation))

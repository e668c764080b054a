"""Strict reading: given data against a class's constructor, every problem with its path.

Nothing is coerced but an integer to a float: 3.7 is no integer, "5" no number, true no 1. All
problems are gathered and raised as one error:

    my.yaml:7: train.batch_size: got 3.7; allowed: an integer
    my.yaml:9: weighting.name: unknown weighting 'sigmod' (did you mean 'sigmoid'?) ...
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar, get_args, get_origin

import attrs

from ..errors import ConfigError, ElbowroomError, PluginError, did_you_mean
from ..registry.components import Registry, installed
from ..registry.reference import is_reference, name_of
from ..registry.trust import Origin
from .messages import (
    COLLECTIONS,
    MAPPINGS,
    NO_HINT,
    UNIONS,
    choices_of,
    describe,
    dotted,
    reason,
    show,
)
from .own_network import Own
from .schema import Option, Required, kind_of, options_of
from .spec import ComponentSpec, NotPlainError, build_nested, describe_instance, to_plain
from .yaml_reader import Trail, is_number, is_utf8

if TYPE_CHECKING:
    from ..registry.component import Component

T = TypeVar("T")

_SCALARS: dict[Any, Any] = {
    bool: bool, int: numbers.Integral, float: numbers.Real, str: str, Path: (str, Path),
}  # fmt: skip
"""Annotation -> accepted types; a boolean only for bool."""


class OverridePlace(str):
    """The place of a value that an override set."""

    __slots__ = ()


@attrs.frozen
class Problem:
    """A problem and its place."""

    trail: Trail
    message: str


class ReadingError(Exception):
    """All problems of what was read."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems


def wrong(trail: Trail, message: str) -> NoReturn:
    """Raise a problem of one value."""
    raise ReadingError(Problem(trail, message))


def _refuse(given: Any, hint: Any, trail: Trail, advice: str = "") -> NoReturn:
    wrong(trail, f"got {show(given)}; allowed: {describe(hint)}{advice}")


@attrs.frozen
class Reading:
    """Reads given data: resolves names, checks values, collects problems with their places."""

    registry: Registry
    base: Path | None = None  # component files are relative to it; None: the working folder
    places: Mapping[Trail, str] = attrs.Factory(dict)
    origin: Origin | None = None  # the run or export that the data is read from

    def checked(self, read: Callable[..., T], *given: Any) -> T:
        """``read(*given)``; problems become one ConfigError with a line for each."""
        try:
            return read(*given)
        except ReadingError as error:
            lines = dict.fromkeys(map(self._line, error.problems))
            raise ConfigError("\n".join(lines)) from None

    def _line(self, problem: Problem) -> str:
        parts = [self._place(problem.trail), dotted(problem.trail), problem.message]
        return ": ".join(part for part in parts if part)

    def _place(self, trail: Trail) -> str:
        """Where the value, or the nearest thing around it, was written."""
        while trail and trail not in self.places:
            trail = trail[:-1]
        return self.places.get(trail, "")

    # -- values

    def value(self, given: Any, hint: Any, trail: Trail) -> Any:  # noqa: PLR0911  # one a kind
        """``given`` as the annotation ``hint`` wants it."""
        if kind := kind_of(hint):
            return self._component_of(hint, kind, given, trail)
        origin = get_origin(hint) or hint
        if origin is Annotated:
            return self.value(given, get_args(hint)[0], trail)
        if origin in NO_HINT:
            return _anything(given, trail)
        if origin in UNIONS:
            return self._union(given, hint, trail)
        if origin in MAPPINGS:
            return self._mapping(given, hint, trail)
        if origin in COLLECTIONS:
            return self._items(given, hint, trail)
        if origin in _SCALARS:
            return _scalar(given, origin, trail)
        if isinstance(origin, type) and isinstance(given, origin):
            return given  # made in Python
        if choices := choices_of(hint):
            return _choice(given, choices, hint, trail)
        if isinstance(origin, type) and attrs.has(origin):
            return self.section(origin, given, trail)
        return wrong(trail, f"has the type {hint}, which a config cannot express")

    def _union(self, given: Any, hint: Any, trail: Trail) -> Any:
        telling = []
        # a float takes integers too: where both are allowed an integer stays one
        for member in sorted(get_args(hint), key=lambda member: member is float):
            try:
                return self.value(given, member, trail)
            except ReadingError as error:
                deeper = any(len(problem.trail) > len(trail) for problem in error.problems)
                if deeper or kind_of(member) or attrs.has(member):
                    telling.append(error)  # more specific than a wrong type
        if telling and given is not None:
            raise telling[0]
        return _refuse(given, hint, trail)

    def _mapping(self, given: Any, hint: Any, trail: Trail) -> dict[Any, Any]:
        if not isinstance(given, Mapping):
            _refuse(given, hint, trail)
        of_key, of_item = get_args(hint) or (Any, Any)
        return {
            self.value(key, of_key, (*trail, key)): self.value(item, of_item, (*trail, key))
            for key, item in given.items()
        }

    def _items(self, given: Any, hint: Any, trail: Trail) -> Sequence[Any]:
        origin, arguments = get_origin(hint) or hint, get_args(hint)
        if isinstance(given, str | bytes) or not isinstance(given, Sequence):
            _refuse(given, hint, trail)
        if origin is not tuple or not arguments or arguments[-1] is Ellipsis:
            arguments = (arguments[0] if arguments else Any,) * len(given)
        if len(given) != len(arguments):
            _refuse(given, hint, trail)
        pairs = enumerate(zip(given, arguments, strict=True))
        items = [self.value(item, of_item, (*trail, n)) for n, (item, of_item) in pairs]
        return tuple(items) if origin is tuple else items

    # -- classes

    def section(self, cls: type[T], given: Any, trail: Trail) -> T:
        """An instance of an attrs class from a mapping of its options."""
        if isinstance(given, cls):
            return given
        if not isinstance(given, Mapping):
            _refuse(given, cls, trail)
        options = self.options(cls, given, trail)
        try:
            return cls(**options)
        except (ValueError, TypeError) as error:
            return wrong(trail, reason(error))

    def options(self, cls: type[Any], given: Mapping[Any, Any], trail: Trail) -> dict[str, Any]:
        """Every option of ``cls``: read where given, else its default."""
        known, values = options_of(cls), {}
        problems: list[Problem] = []
        for name, option in known.items():
            try:
                value = self._option(option, given.get(name, option.usual), name in given, trail)
            except ReadingError as error:
                problems += error.problems
            else:
                values[name] = value
        values = {name: value for name, value in values.items() if value is not attrs.NOTHING}
        problems += [_unknown(key, known, trail) for key in given if key not in known]
        problems += _out_of_range(cls, values, trail)
        if problems:
            raise ReadingError(*problems)
        return values

    def _option(self, option: Option, given: Any, is_given: bool, trail: Trail) -> Any:
        at, default = (*trail, option.name), option.default()
        if not is_given and option.usual is None:
            if default is Required:
                wrong(at, f"missing; needed is {describe(option.hint)}")
            return default
        # the class's own default is allowed, whatever its annotation
        own = type(given) is type(default) and isinstance(given, bool | int | float | NoneType)
        return default if own and given == default else self.value(given, option.hint, at)

    # -- components

    def component(self, kind: str, given: Any, trail: Trail) -> ComponentSpec:
        """A spec from a name, a mapping with ``name`` and options, or an instance."""
        if isinstance(given, ComponentSpec) and given.kind == kind:
            return given
        if isinstance(given, str):
            return self._named(kind, given, {}, trail, trail)
        if isinstance(given, Mapping) and "name" not in given:
            wrong(trail, f"got a mapping without 'name'; which {kind} is it?")
        if isinstance(given, Mapping):
            return self._of_mapping(kind, given, trail)
        if kind_of(type(given)) != kind:
            if (own := Own.of(kind, given)) is not None:
                return self._own(own, trail)
            adapted = self.registry.hook.adapt(kind=kind, given=given)
            given = _refuse(given, Annotated[Any, kind], trail) if adapted is None else adapted
        return self._instance(kind, given, trail)

    def _of_mapping(self, kind: str, given: Mapping[Any, Any], trail: Trail) -> ComponentSpec:
        name_trail = (*trail, "name")
        options = {key: item for key, item in given.items() if key != "name"}
        if isinstance(given["name"], type) and (own := Own.of(kind, given["name"])):
            return self._own(attrs.evolve(own, options=options), trail)
        name = _scalar(given["name"], str, name_trail)
        return self._named(kind, name, options, trail, name_trail)

    def _own(self, own: Own, trail: Trail) -> ComponentSpec:
        """A class or an object that no plugin supplies."""
        component, plain, why = own.component, None, None
        if own.instance is None:
            options = self.options(own.maker, own.options, trail)
        else:
            options = {}
            try:
                options = own.kept_options()
            except NotPlainError as error:
                why = error
        name = own.maker.__qualname__ if component is None else component.name
        if component is not None and why is None:
            plain = _resolved(name, options, own.options)
        not_plain = "" if plain is not None else own.why_not_plain(why)
        return ComponentSpec(
            own.kind,
            name,
            options,
            component,
            plain,
            dotted(trail),
            own.instance,
            not_plain,
            own.maker,
        )

    def _component_of(self, hint: Any, kind: str, given: Any, trail: Trail) -> ComponentSpec:
        """A component of the annotated class, which may be narrower than its kind."""
        spec = self.component(kind, given, trail)
        if isinstance(hint, type) and not issubclass(spec.cls, hint):
            wrong(trail, f"got '{spec.name}'; allowed: a {kind} that is a {hint.__name__}")
        return spec

    def _named(
        self, kind: str, name: str, given: Mapping[Any, Any], trail: Trail, name_trail: Trail
    ) -> ComponentSpec:
        if not name or not name.isprintable():
            wrong(name_trail, f"got {show(name)}; allowed: the name of a {kind}")
        typed = isinstance(self._place(name_trail), OverridePlace)
        origin = None if typed or not is_reference(name) else self.origin
        if origin is not None and self.registry.registered(kind, name) is None:
            origin.refuse_code(dotted(trail), name, given)
        try:
            component = self._find(kind, name, trail, typed)
            options = self.options(component.load(), given, trail)
        except PluginError as error:
            wrong(name_trail, str(error))
        if is_reference(name):
            name = component.name  # holds from any folder
        resolved = _resolved(name, options, given)
        return ComponentSpec(kind, name, options, component, resolved, dotted(trail))

    def _find(self, kind: str, name: str, trail: Trail, typed: bool) -> Component:
        if typed or self.origin is None:
            # a file in an override is relative to the working folder
            return self.registry.find(kind, name, None if typed else self.base)
        recorded = self.origin.owners.get(dotted(trail))
        return self.registry.find(kind, name, self.base, recorded=recorded)

    def _instance(self, kind: str, instance: Any, trail: Trail) -> ComponentSpec:
        name = name_of(type(instance))
        component = given = None
        with suppress(PluginError):
            found = self.registry.find(kind, name)
            component = found if found.load() is type(instance) else None
        with suppress(NotPlainError, PluginError):
            given = describe_instance(instance)
        options = {key: item for key, item in (given or {}).items() if key != "name"}
        return ComponentSpec(kind, name, options, component, given, dotted(trail), instance)


def named_component(
    kind: str, given: Any, registry: Registry | None = None, path: str = ""
) -> ComponentSpec:
    """Return the spec of one component; ``build()`` makes the component.

    Args:
        kind: Kind of the component, e.g. "weighting".
        given: A name, a mapping with ``name`` and options, or an instance.
        registry: Where names are looked up (default: the installed plugins).
        path: Name of the value in error messages (default: the kind).

    Raises:
        ConfigError: The name or an option is unknown, or a value is not allowed.

    Example:
        ``named_component("weighting", {"name": "sigmoid", "k": 2.0}).build()``
    """
    reading = Reading(registry or installed())
    return reading.checked(reading.component, kind, given, (path or kind,))


def _anything(given: Any, trail: Trail) -> Any:
    try:
        to_plain(given)
    except NotPlainError:
        _refuse(given, Any, trail)
    return given


def _scalar(given: Any, hint: Any, trail: Trail) -> Any:
    fits = isinstance(given, _SCALARS[hint]) and isinstance(given, bool) == (hint is bool)
    if not fits or (hint is Path and not str(given)):
        unquoted = hint in (int, float) and isinstance(given, str) and is_number(given)
        quoted = hint is str and isinstance(given, bool | int | float)
        _refuse(given, hint, trail, ", without quotes" * unquoted or ", in quotes" * quoted)
    if isinstance(given, str) and not is_utf8(given):
        wrong(trail, f"got {show(given)}, which is not UTF-8 text")
    try:
        value = hint(given)
    except OverflowError:
        wrong(trail, f"got {show(given)}, too large for a number")
    if isinstance(value, float) and not math.isfinite(value):
        wrong(trail, f"got {show(value)}; allowed: a finite number")
    return value


def _choice(given: Any, choices: Mapping[Any, Any], hint: Any, trail: Trail) -> Any:
    for choice, value in choices.items():
        if type(given) is type(choice) and given == choice:  # 1 == True == 1.0 only in Python
            return value
    near = did_you_mean(given, map(str, choices)) if isinstance(given, str) else ""
    return _refuse(given, hint, trail, near)


def _unknown(key: Any, known: Mapping[str, Option], trail: Trail) -> Problem:
    near = did_you_mean(key, list(known)) if isinstance(key, str) else ""
    allowed = f"allowed: {', '.join(known)}" if known else "there are no options"
    return Problem((*trail, key), f"unknown key {show(key)}{near}; {allowed}")


def _out_of_range(cls: type[Any], values: Mapping[str, Any], trail: Trail) -> Iterator[Problem]:
    """Problems found by the validators of an attrs class, without building it."""
    if not attrs.has(cls):
        return
    fields = [field for field in attrs.fields(cls) if field.init and field.alias in values]
    blank = object.__new__(cls)
    for field in fields:
        value = values[field.alias]
        kept = build_nested(value) if field.validator else value
        object.__setattr__(blank, field.name, kept)
    for field in fields:
        if field.validator is None or field.converter is not None:
            continue  # a converter makes another value of it, when it is built
        value = getattr(blank, field.name)
        try:
            field.validator(blank, field, value)
        except AttributeError:
            continue  # it reads a field that is itself wrong
        except (ElbowroomError, ValueError, TypeError, ArithmeticError) as error:
            yield Problem((*trail, field.alias), reason(error, field.name, value))


def _resolved(
    name: str, options: Mapping[str, Any], given: Mapping[Any, Any]
) -> dict[str, Any] | None:
    """The whole component as plain data, or None if something given is not plain."""
    resolved: dict[str, Any] = {"name": name}
    for option, value in options.items():
        with suppress(NotPlainError):  # a default no config can express stays the class's own
            resolved[option] = to_plain(value)
    return None if any(option not in resolved for option in given) else resolved

"""Strict reading: given data against a class's constructor, every problem with its path.

Nothing is coerced but an integer to a float: 3.7 is no integer, "5" no number, true no 1. All
problems are gathered and raised as one error:

    my.yaml:7: train.batch_size: got 3.7; allowed: an integer
    my.yaml:9: weighting.name: unknown weighting 'sigmod' (did you mean 'sigmoid'?) ...
"""

from __future__ import annotations

import enum
import math
import types
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

import attrs

from ..errors import ConfigError, ElbowroomError, PluginError, did_you_mean
from ..registry.reference import is_reference, name_of
from ..registry.trust import Origin, Vetting
from .messages import (
    COLLECTIONS,
    MAPPINGS,
    NO_HINT,
    describe,
    describe_component,
    dotted,
    reason,
    show,
)
from .scalars import SCALARS, is_number, is_utf8
from .schema import Option, Options, Required, Unreadable, kind_of, options_of
from .spec import ComponentSpec, NotPlainError, build_nested, describe_instance, plain
from .yaml_reader import Trail

if TYPE_CHECKING:
    from ..registry.component import Component
    from ..registry.components import Registry

# an enum made by a call: mypy does not know its members
INVALID: Any = enum.Enum("Invalid", "INVALID").INVALID  # type: ignore[attr-defined]
"""What a reading answers where it found a problem."""


class OverridePlace(str):
    """The place of a value that an override set: a type of its own, as a folder has any name."""

    __slots__ = ()

    def __new__(cls, text: str) -> OverridePlace:
        return super().__new__(cls, f"override {text}")


@attrs.frozen
class Problem:
    """Something wrong, and where."""

    trail: Trail
    message: str


@attrs.define
class Reading:
    """One pass over given data."""

    registry: Registry
    base: Path | None = None  # component files are relative to it; None: the working folder
    places: Mapping[Trail, str] = attrs.Factory(dict)
    problems: list[Problem] = attrs.Factory(list)
    origin: Origin | None = None  # the data is a run's or an export's, perhaps a stranger's

    # -- problems

    def wrong(self, trail: Trail, message: str) -> Any:
        """Notes a problem; answers INVALID."""
        self.problems.append(Problem(trail, message))
        return INVALID

    def finish(self) -> None:
        """Raises what was found, as one error."""
        if self.problems:
            raise ConfigError("\n".join(dict.fromkeys(map(self._line, self.problems))))

    def _line(self, problem: Problem) -> str:
        parts = [self._place(problem.trail), dotted(problem.trail), problem.message]
        return ": ".join(part for part in parts if part)

    def _place(self, trail: Trail) -> str:
        """Where the value, or the nearest thing around it, was written."""
        while trail and trail not in self.places:
            trail = trail[:-1]
        return self.places.get(trail, "")

    def _is_override(self, trail: Trail) -> bool:
        return isinstance(self._place(trail), OverridePlace)

    # -- values

    def value(  # noqa: PLR0911  # one answer for each kind of annotation
        self, given: Any, hint: Any, trail: Trail
    ) -> Any:
        """``given`` as the annotation ``hint`` wants it, or INVALID."""
        if hint in NO_HINT:
            return self._anything(given, trail)
        if hint is None or hint is type(None):
            return None if given is None else self._refuse(given, hint, trail)
        if isinstance(hint, Unreadable):
            return self.wrong(trail, f"has the type {hint.text}, which a config cannot express")
        origin = get_origin(hint) or hint
        if origin in (Union, types.UnionType):
            return self._union(given, hint, trail)
        if origin is Literal:
            return self._choice(given, {choice: choice for choice in get_args(hint)}, hint, trail)
        if origin in COLLECTIONS:
            return self._collection(given, origin, hint, trail)
        if kind := kind_of(origin):
            return self.component(kind, given, trail, origin)
        if origin in SCALARS:
            return self._scalar(given, origin, trail)
        if isinstance(origin, type) and isinstance(given, origin):
            return given  # made in Python
        if isinstance(origin, type) and issubclass(origin, enum.Enum):
            names = {member.name: member for member in origin}
            return self._choice(given, names | {m.value: m for m in origin}, hint, trail)
        if isinstance(origin, type) and attrs.has(origin):
            return self.section(origin, given, trail)
        return self.wrong(trail, f"has the type {hint}, which a config cannot express")

    def _refuse(self, given: Any, hint: Any, trail: Trail, advice: str = "") -> Any:
        return self.wrong(trail, f"got {show(given)}; allowed: {describe(hint)}{advice}")

    def _anything(self, given: Any, trail: Trail) -> Any:
        try:
            plain(given)
        except NotPlainError:
            return self._refuse(given, Any, trail)
        return given

    def _scalar(self, given: Any, hint: Any, trail: Trail) -> Any:
        convert = SCALARS[hint]
        try:
            value = convert(given)
        except OverflowError:
            return self.wrong(trail, f"got {show(given)}, too large for a number")
        if value is None:
            unquoted = hint in (int, float) and isinstance(given, str) and is_number(given)
            quoted = hint is str and isinstance(given, bool | int | float)
            advice = ", without quotes" if unquoted else ", in quotes" if quoted else ""
            return self._refuse(given, hint, trail, advice)
        if isinstance(value, float) and not math.isfinite(value):
            return self.wrong(trail, f"got {show(value)}; allowed: a finite number")
        if isinstance(given, str) and not is_utf8(given):
            return self.wrong(trail, f"got {show(given)}, which is not UTF-8 text")
        return value

    def _choice(self, given: Any, choices: Mapping[Any, Any], hint: Any, trail: Trail) -> Any:
        for choice, value in choices.items():
            # 1 == True == 1.0 in Python, not in a config
            if given is value or (type(given) is type(choice) and given == choice):
                return value
        near = did_you_mean(given, map(str, choices)) if isinstance(given, str) else ""
        return self._refuse(given, hint, trail, near)

    def _union(self, given: Any, hint: Any, trail: Trail) -> Any:
        # a float takes integers too: where both are allowed an integer stays one
        members = sorted(get_args(hint), key=lambda member: member is float)
        attempts = []
        for member in members:
            attempt = attrs.evolve(self, problems=[])
            value = attempt.value(given, member, trail)
            if value is not INVALID:
                return value
            attempts.append(attempt.problems)
        real = [found for m, found in zip(members, attempts, strict=True) if m is not type(None)]
        inside = [found for found in real if any(len(p.trail) > len(trail) for p in found)]
        # the member that got furthest knows best what is wrong
        if len(real) == 1 and (inside or kind_of(_only(members)) or attrs.has(_only(members))):
            self.problems += real[0]
            return INVALID
        if inside:
            self.problems += inside[0]
            return INVALID
        return self._refuse(given, hint, trail)

    def _collection(self, given: Any, origin: Any, hint: Any, trail: Trail) -> Any:
        arguments = get_args(hint)
        if origin in MAPPINGS:
            if not isinstance(given, Mapping):
                return self._refuse(given, hint, trail)
            key_hint, value_hint = arguments or (Any, Any)
            pairs = {}
            for key, item in given.items():
                at = (*trail, key)
                pairs[self.value(key, key_hint, at)] = self.value(item, value_hint, at)
            bad = INVALID in pairs or any(item is INVALID for item in pairs.values())
            return INVALID if bad else pairs
        if isinstance(given, str | bytes) or not isinstance(given, Sequence):
            return self._refuse(given, hint, trail)
        if origin is tuple and arguments and arguments[-1] is not Ellipsis:
            if len(given) != len(arguments):
                return self._refuse(given, hint, trail)
            hints = arguments
        else:
            hints = (arguments[0] if arguments else Any,) * len(given)
        items = [
            self.value(item, item_hint, (*trail, n))
            for n, (item, item_hint) in enumerate(zip(given, hints, strict=True))
        ]
        if any(item is INVALID for item in items):
            return INVALID
        return tuple(items) if origin is tuple else items

    # -- classes

    def section(self, cls: type[Any], given: Any, trail: Trail) -> Any:
        """An instance of an attrs class from a mapping of its options."""
        if isinstance(given, cls):
            return given
        if not isinstance(given, Mapping):
            return self._refuse(given, cls, trail)
        before = len(self.problems)
        options = self.options(cls, options_of(cls), given, trail)
        if len(self.problems) > before:
            return INVALID
        try:
            return cls(**options)
        except (ValueError, TypeError) as error:
            return self.wrong(trail, reason(error, "", None))

    def options(
        self, cls: type[Any], schema: Options, given: Mapping[Any, Any], trail: Trail
    ) -> dict[str, Any]:
        """Every option of ``cls``: read where given, else its default; INVALID ones left out."""
        values: dict[str, Any] = {}
        for name, option in schema.named.items():
            at = (*trail, name)
            default = option.default()
            if name not in given:
                if default is Required:
                    self.wrong(at, f"missing; needed is {self._describe(option)}")
                elif default is not attrs.NOTHING:
                    values[name] = self._default(option, default, at)
            elif _same(given[name], default):
                values[name] = self._default(option, default, at)  # the class's own is allowed
            else:
                values[name] = self._option(option, given[name], at)
        for key in given:
            if key in schema.named:
                continue
            if schema.rest is not None and isinstance(key, str):
                values[key] = self.value(given[key], schema.rest.hint, (*trail, key))
            else:
                self._unknown(key, schema.named, (*trail, key))
        values = {name: value for name, value in values.items() if value is not INVALID}
        if attrs.has(cls):
            self._ranges(cls, values, trail)
        return values

    def _option(self, option: Option, given: Any, trail: Trail) -> Any:
        metadata = option.attribute.metadata if option.attribute else {}
        if kind := metadata.get("component"):
            if given is None and metadata.get("optional"):
                return None
            return self.component(kind, given, trail)
        if _admits(option, given):
            return given
        return self.value(given, option.hint, trail)

    def _default(self, option: Option, default: Any, trail: Trail) -> Any:
        metadata = option.attribute.metadata if option.attribute else {}
        holds_component = kind_of(option.hint) or kind_of(type(default))
        if "default" in metadata or (holds_component and default is not None):
            return self._option(option, default, trail)
        return default

    def _unknown(self, key: Any, known: Iterable[str], trail: Trail) -> None:
        names = list(known)
        near = did_you_mean(key, names) if isinstance(key, str) else ""
        allowed = f"allowed: {', '.join(names)}" if names else "there are no options"
        self.wrong(trail, f"unknown key {show(key)}{near}; {allowed}")

    def _describe(self, option: Option) -> str:
        kind = option.attribute.metadata.get("component") if option.attribute else None
        return describe_component(kind) if kind else describe(option.hint)

    def _ranges(self, cls: type[Any], values: Mapping[str, Any], trail: Trail) -> None:
        """Runs the validators of an attrs class, without running anything else of it."""
        fields = [field for field in attrs.fields(cls) if field.init]
        try:
            blank = object.__new__(cls)
        except TypeError as error:  # an abstract class
            self.wrong(trail, str(error))
            return
        known = {f.alias: _convert(f, build_nested(values[f.alias])) for f in fields
                 if f.alias in values and (f.validator or f.converter)}  # fmt: skip
        for field in fields:
            if field.alias in values:
                object.__setattr__(blank, field.name, known.get(field.alias, values[field.alias]))
        complete = len(values) >= len(fields)
        for field in fields:
            if field.validator is None or field.alias not in values:
                continue
            value = known[field.alias]
            try:
                field.validator(blank, field, value)
            except AttributeError:
                if complete:  # else it asked for a field that is itself wrong
                    raise
            except ElbowroomError as error:
                self.wrong((*trail, field.alias), str(error))
            except (ValueError, TypeError, ArithmeticError) as error:
                self.wrong((*trail, field.alias), reason(error, field.name, value))

    # -- components

    def component(  # noqa: PLR0911  # one answer for each form
        self, kind: str, given: Any, trail: Trail, base: type[Any] = object
    ) -> Any:
        """A spec from a name, a mapping with ``name`` and options, or an instance; or INVALID."""
        if isinstance(given, ComponentSpec):
            if given.kind == kind:
                return given
            return self.wrong(trail, f"got a {given.kind}; allowed: {describe_component(kind)}")
        if isinstance(given, str):
            return self._named(kind, given, {}, trail, name_trail=trail, base=base)
        if isinstance(given, Mapping):
            name = given.get("name")
            if isinstance(name, str):
                options = {key: item for key, item in given.items() if key != "name"}
                at_name = (*trail, "name")
                return self._named(kind, name, options, trail, name_trail=at_name, base=base)
            if "name" in given:
                return self._refuse(name, str, (*trail, "name"))
            return self.wrong(trail, f"got a mapping without 'name'; which {kind} is it?")
        if kind_of(type(given)) == kind and isinstance(given, base):
            return self._instance(kind, given, trail)
        return self.wrong(trail, f"got {show(given)}; allowed: {describe_component(kind)}")

    def _named(
        self,
        kind: str,
        name: str,
        given: Mapping[Any, Any],
        trail: Trail,
        *,
        name_trail: Trail,
        base: type[Any],
    ) -> Any:
        if not name or not name.isprintable():
            return self._refuse(name, f"the name of a {kind}", name_trail)
        try:
            component_spec = self._find(kind, name, trail, name_trail)
            cls = component_spec.load()
            schema = options_of(cls)
        except PluginError as error:
            return self.wrong(name_trail, str(error))
        if not issubclass(cls, base):
            wanted = f"a {kind} that is a {base.__name__}"
            return self.wrong(name_trail, f"got '{name}'; allowed: {wanted}")
        before = len(self.problems)
        options = self.options(cls, schema, given, trail)
        if len(self.problems) > before:
            return INVALID
        if is_reference(name):
            name = component_spec.name  # holds from any folder
        return ComponentSpec(
            kind=kind,
            name=name,
            options=options,
            component=component_spec,
            given=_resolved(name, options, given),
            path=dotted(trail),
        )

    def _find(self, kind: str, name: str, trail: Trail, name_trail: Trail) -> Component:
        if self.origin is None:
            return self.registry.find(kind, name, self.base)
        if self._is_override(name_trail):  # not what the run used
            vetting = Vetting(self.origin, overridden=True)
        else:
            vetting = Vetting(self.origin, self.origin.owners.get(dotted(trail)))
        return self.registry.find(kind, name, self.base, vetting=vetting)

    def _instance(self, kind: str, instance: Any, trail: Trail) -> ComponentSpec:
        cls = type(instance)
        name = name_of(cls)
        try:
            found = self._find(kind, name, trail, trail)
            component_spec = found if found.load() is cls else None
        except PluginError:
            component_spec = None
        try:
            given = describe_instance(instance)
        except (NotPlainError, PluginError):
            given = None
        options = {key: item for key, item in (given or {}).items() if key != "name"}
        return ComponentSpec(
            kind=kind,
            name=name,
            options=options,
            component=component_spec,
            given=given,
            path=dotted(trail),
            instance=instance,
        )


def component_spec(
    kind: str,
    given: Any,
    registry: Registry | None = None,
    path: str = "",
    base: Path | None = None,
) -> ComponentSpec:
    """One component from a name, a mapping with ``name`` and options, or an instance."""
    if registry is None:
        from ..registry.components import installed

        registry = installed()
    reading = Reading(registry, base)
    spec = reading.component(kind, given, (path or kind,))
    reading.finish()
    assert isinstance(spec, ComponentSpec)
    return spec


def _resolved(
    name: str, options: Mapping[str, Any], given: Mapping[Any, Any]
) -> dict[str, Any] | None:
    """The whole component as plain data, or None if something given is not plain."""
    resolved: dict[str, Any] = {"name": name}
    for option, value in options.items():
        with suppress(NotPlainError):  # a default no config can express stays the class's own
            resolved[option] = plain(value)
    return None if any(option not in resolved for option in given) else resolved


def _only(members: Sequence[Any]) -> Any:
    return next(member for member in members if member is not type(None))


def _same(given: Any, default: Any) -> bool:
    """Is it the default itself? Types must agree: 1 == True == 1.0 in Python."""
    if default is Required or default is attrs.NOTHING or isinstance(default, str):
        return False
    try:
        return type(given) is type(default) and bool(given == default)
    except Exception:  # equality of foreign objects may do anything; unequal, then
        return False


def _convert(field: attrs.Attribute[Any], value: Any) -> Any:
    """What the class would keep, where its converter needs nothing but the value."""
    if field.converter is None or not callable(field.converter):
        return value
    try:
        return field.converter(value)
    except TypeError:
        return value


def _admits(option: Option, given: Any) -> bool:
    """Does the option's own range end at this infinity, included?"""
    if option.hint is not float or not isinstance(given, float) or not math.isinf(given):
        return False
    validators = [option.attribute.validator] if option.attribute else []
    while validators:
        validator = validators.pop()
        validators += getattr(validator, "_validators", ())  # attrs' and_
        comparison = getattr(validator, "compare_op", "")
        if comparison in ("<=", ">=") and getattr(validator, "bound", None) == given:
            return True
    return False

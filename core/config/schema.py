"""Options: a class's own constructor, read as the schema of its config.

    @attrs.frozen                                   {name: sigmoid, k: 2}
    class Sigmoid(Weighting):          <->
        k: float = 0.0

Works for attrs classes and for classes with a written ``__init__`` (networks) alike. Positional
parameters called ``signature`` or ``data`` are supplied by the framework and are no options, nor
are ``*args`` and ``**kwargs``.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from types import SimpleNamespace
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import attrs

from ..errors import PluginError
from ..registry.kinds import KINDS

SUPPLIED = frozenset({"signature", "data"})


class Required:
    """The default of an option that has none."""


@attrs.frozen
class Option:
    """One parameter of a constructor."""

    name: str
    hint: Any  # text where it cannot be evaluated
    default: Callable[[], Any]
    attribute: str  # where an instance keeps it
    usual: Any = None  # what a config may leave out and Python may not


def kind_of(hint: Any) -> str | None:
    """``weighting`` for Weighting and its subclasses, None for what is no component.

    A section writes ``Annotated[ComponentSpec, "weighting"]``.
    """
    if get_origin(hint) is Annotated and isinstance(kind := get_args(hint)[1], str):
        return kind if kind in KINDS else None
    for base in hint.__mro__ if isinstance(hint, type) else ():
        contract = f"{base.__module__}:{base.__qualname__}"
        if base is not object and (kind := _by_contract(len(KINDS)).get(contract)):
            return kind
    return None


@lru_cache(1)
def _by_contract(_: int) -> dict[str, str]:
    """Contract class -> kind, of what a config names; renewed with each new kind.

    Contracts are compared by name, so that nothing is imported.
    """
    return {kind.contract: kind.name for kind in KINDS.values() if kind.name != "section"}


def options_of(cls: type[Any]) -> dict[str, Option]:
    """The options of a class by name, in the order its constructor has them."""
    fields = {f.alias: f for f in attrs.fields(cls) if f.init} if attrs.has(cls) else {}
    names, found = _names(cls), {}
    for p in _parameters(cls):
        field = fields.get(p.name)
        hint, default = _resolve(_annotation(p, field), names), _default(p.default, field)
        if field is not None:
            found[p.name] = Option(p.name, hint, default, field.name, field.metadata.get("default"))
        else:
            found[p.name] = Option(p.name, hint, default, p.name)
    if "name" in found:
        raise PluginError(
            f"{cls.__module__}:{cls.__qualname__} has an option called 'name', which a config uses "
            "for the component itself; its author must rename it"
        )
    return found


def _parameters(cls: type[Any]) -> list[inspect.Parameter]:
    """The parameters of a constructor that are options."""
    return [p for p in _all_parameters(cls) if not _is_supplied(p)]


def _all_parameters(made: Any) -> list[inspect.Parameter]:
    """Of a class's constructor or of a function, by name."""
    if getattr(made, "__init__", None) is object.__init__:
        return []
    try:
        maker = getattr(made, "__init__") if isinstance(made, type) else made  # noqa: B009  # of the class
        parameters = list(inspect.signature(maker).parameters.values())[isinstance(made, type) :]
    except (TypeError, ValueError):  # written in C: nothing to read
        return []
    return [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def _is_supplied(p: inspect.Parameter) -> bool:
    return p.kind is not p.KEYWORD_ONLY and p.name in SUPPLIED


def takes_what_is_supplied(made: Any) -> bool:
    """Whether it is built from a signature; another library's network may not be."""
    return kind_of(made) is not None or any(map(_is_supplied, _all_parameters(made)))


def _annotation(p: inspect.Parameter, field: attrs.Attribute[Any] | None) -> Any:
    """The annotation of a parameter.

    attrs omits it for a field with an unannotated converter. ``tuple`` and ``list`` change no
    item, so for these it is the type of the field.
    """
    converter: Any = None if field is None else field.converter
    if field is None or p.annotation is not p.empty or converter not in (tuple, list):
        return p.annotation
    return p.empty if field.type is None else field.type


def _default(default: Any, field: attrs.Attribute[Any] | None) -> Callable[[], Any]:
    factory: Any = None if field is None else field.default
    if isinstance(factory, attrs.Factory):  # type: ignore[arg-type]  # typed as a function
        # one that reads the instance answers only when there is one: leave it to the class
        return (lambda: attrs.NOTHING) if factory.takes_self else factory.factory
    return lambda: Required if default is inspect.Parameter.empty else default


class _Names(dict[str, Any]):
    """The names annotations may use, then those often imported for type checkers only."""

    def __missing__(self, name: str) -> Any:
        for module in map(import_module, ("elbowroom", "typing", "collections.abc", "pathlib")):
            if hasattr(module, name):
                return getattr(module, name)
        raise KeyError(name)


def _names(cls: type[Any]) -> _Names:
    """A class's own names, and those of its module and of its bases' modules."""
    names = _Names(vars(cls))
    for base in reversed(getattr(cls, "__mro__", (cls,))):
        names |= vars(sys.modules[base.__module__]) if base.__module__ in sys.modules else {}
    return names


def _resolve(annotation: Any, names: _Names) -> Any:
    """The type of an annotation, or its text if it cannot be evaluated."""
    if annotation is inspect.Parameter.empty:
        return annotation
    holder = SimpleNamespace(__annotations__={"it": annotation})
    try:
        return get_type_hints(holder, globalns={}, localns=names, include_extras=True)["it"]
    except Exception:  # an annotation is code and may raise anything
        return str(annotation)

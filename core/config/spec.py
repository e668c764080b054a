"""A component of a config: resolved and checked, not yet built."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from ..errors import ConfigError, ElbowroomError, is_allocation_failure
from ..registry.components import installed
from ..registry.reference import name_of
from .messages import reason, show
from .schema import kind_of, options_of, takes_what_is_supplied

if TYPE_CHECKING:
    from ..registry.components import Component


@attrs.frozen(eq=False)
class ComponentSpec:
    """A component and its options; ``build()`` makes it.

    ``given`` is the resolved form: plain data with every default, which reads back to an equal
    spec. It is None for an instance made in Python whose options are not plain data.
    """

    kind: str
    name: str
    options: Mapping[str, Any]  # structured: paths, enums, nested specs
    component: Component | None  # None: an instance of a class without a name
    given: Mapping[str, Any] | None
    path: str = ""  # where in the config, for errors
    instance: Any = None  # already built, in Python
    not_plain: str = ""  # why ``given`` is None
    maker: Any = None  # the class or function, if it has no name

    @property
    def cls(self) -> type[Any]:
        """The class that is built."""
        if self.instance is not None:
            return type(self.instance)
        cls: type[Any] = self.maker
        if self.component is not None:
            cls = self.component.load()
        return cls

    def build(self, *supplied: Any) -> Any:
        """The component itself; ``supplied`` is what the framework gives (a signature)."""
        if self.instance is not None:
            return self.instance
        options = {name: build_nested(value) for name, value in self.options.items()}
        supplied = supplied if takes_what_is_supplied(self.cls) else ()
        try:
            return self.cls(*supplied, **options)
        except ElbowroomError:
            raise
        except (ValueError, TypeError, RuntimeError, MemoryError, OverflowError) as error:
            if is_allocation_failure(error):
                raise ConfigError(
                    f"{self.path}: not enough memory for {self.kind} '{self.name}' with "
                    f"{self._sizes(options)}"
                ) from error
            if isinstance(error, RuntimeError):
                raise
            raise ConfigError(f"{self.path}: {self.kind} '{self.name}': {reason(error)}") from error

    def _sizes(self, options: Mapping[str, Any]) -> str:
        """The options that decide how large it is."""
        numbers = [f"{k}={show(v)}" for k, v in options.items() if type(v) in (int, list, tuple)]
        return ", ".join(numbers) or "its options"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ComponentSpec):
            return NotImplemented
        if self.given is None or other.given is None:
            return self.instance is not None and self.instance is other.instance
        return (self.kind, self.given) == (other.kind, other.given)

    __hash__ = None  # type: ignore[assignment]  # it holds mappings


def build_nested(value: Any) -> Any:
    """``value`` with every spec inside it built."""
    if isinstance(value, ComponentSpec):
        return value.build()
    if type(value) in (list, tuple):
        return type(value)(build_nested(item) for item in value)
    if type(value) is dict:
        return {key: build_nested(item) for key, item in value.items()}
    return value


class NotPlainError(ConfigError):
    """A value that no config can express."""

    def __init__(self, what: str, why: str = "") -> None:
        super().__init__(
            f"this config cannot be written down: {what} "
            + (
                why
                or "was made in Python and its options are no plain data; name it, or give it "
                "options of plain types"
            )
        )


def to_plain(value: Any) -> Any:  # noqa: PLR0911  # one answer for each type
    """A config, or any value in one, as plain data with every default."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float and not math.isnan(value):
        return value
    if isinstance(value, enum.Enum):
        return to_plain(value.value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, ComponentSpec):
        if value.given is None:
            raise NotPlainError(value.path or value.name, value.not_plain)
        return dict(value.given)
    if type(value) in (list, tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, Mapping) and all(type(key) in (str, int) for key in value):
        return {key: to_plain(item) for key, item in value.items()}
    if kind_of(type(value)):
        return describe_instance(value)
    if attrs.has(type(value)):
        return attributes(value)
    raise NotPlainError(f"{type(value).__module__}.{type(value).__qualname__}")


def describe_instance(instance: Any) -> dict[str, Any]:
    """A component made in Python, as a config would name it."""
    cls = type(instance)
    if not cls.__qualname__.isidentifier():
        raise NotPlainError(f"{cls.__qualname__}, defined inside a function or class")
    kind = kind_of(cls)
    known = None if kind is None else installed().name_of(kind, cls)
    return {"name": known or name_of(cls), **attributes(instance)}


def attributes(instance: Any) -> dict[str, Any]:
    """The options of an instance, read back from the attributes that keep them."""
    found = {}
    for option in options_of(type(instance)).values():
        if not hasattr(instance, option.attribute):
            kept = f"{type(instance).__qualname__}, which does not keep '{option.attribute}',"
            raise NotPlainError(kept)
        found[option.name] = to_plain(getattr(instance, option.attribute))
    return found

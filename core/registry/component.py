"""Components: what a plugin supplies, and who supplied it.

A component is a class (a command: a function) of one *kind* under a name. It is kept as it is or as
``"module:Class"``, which is imported only when the component is used: listing every component
imports neither torch nor any network.
"""

from __future__ import annotations

import importlib
import inspect
import operator
import re
import traceback
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import attrs

from ..errors import PluginError
from .importing import importing
from .kinds import KINDS

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
"""Names of components: without ``/ : = ,`` and space, which have a meaning in configs."""

TARGET = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
"""``module:Class``, both perhaps dotted."""


_LINE = str.isprintable
_RECORDED = dict.fromkeys(("distribution", "version"), re.compile(r"[\w.+!-]*\w").fullmatch)
"""Accepted values of a recorded owner, which becomes a line of a requirements.txt."""


@attrs.frozen
class Owner:
    """The supplier of a component: an installed distribution, or a file."""

    distribution: str | None = None
    version: str | None = None
    plugin: str | None = None  # the entry point's name
    path: str | None = None  # of code that was named by reference, not by an entry point
    sha256: str | None = None  # of that file

    def __str__(self) -> str:
        words = []
        if self.distribution is not None:
            words.append(f"{self.distribution} {self.version}")
        if self.path is not None:
            words.append(f"{self.path} (sha256 {(self.sha256 or '')[:12]})")
        return ", ".join(words) or "nobody known"

    def record(self) -> dict[str, str]:
        """Plain JSON for a run's provenance; :meth:`of_record` reads it."""
        return attrs.asdict(self, filter=lambda _, value: value is not None)

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Owner:
        """The owner a run recorded; unknown fields and impossible values are ignored."""
        known = {field.name for field in attrs.fields(cls)}
        return cls(
            **{
                key: value
                for key, value in record.items()
                if key in known and isinstance(value, str) and _RECORDED.get(key, _LINE)(value)
            }
        )


@attrs.frozen
class Component:
    """A class of one kind under a name, imported when it is first needed."""

    kind: str
    name: str
    owner: Owner
    target: Any  # the class or function, or "module:Class"

    @property
    def reference(self) -> str:
        """``module:Class`` of the target."""
        if isinstance(self.target, str):
            return self.target
        return f"{self.target.__module__}:{self.target.__qualname__}"

    def load(self) -> Any:
        """The class (of a command: the function), checked against the contract of its kind."""
        found = self.target
        if isinstance(found, str):
            try:
                with importing():
                    found = import_target(found)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # reported as this component's error
                raise PluginError(
                    f"{self._described()} cannot be loaded from {self.target!r}: {cause(error)}"
                ) from error
        return self._checked(found)

    def _checked(self, found: Any) -> Any:
        kind = KINDS.get(self.kind)
        if kind is not None and not kind.is_class:
            if not inspect.isfunction(found):
                raise PluginError(f"{self._described()} must be a function, not {found!r}")
            return found
        if not isinstance(found, type):
            raise PluginError(f"{self._described()} must be a class, not {found!r}")
        if kind is not None:
            contract = import_target(kind.contract)
            if not issubclass(found, (contract, *map(import_target, filter(None, [kind.also])))):
                other = f" or {kind.also.replace(':', '.')}" if kind.also else ""
                raise PluginError(
                    f"{self._described()} is {found.__qualname__!r}, which does not derive from "
                    f"elbowroom.{contract.__name__}{other}"
                )
        if inspect.isabstract(found):
            missing = ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
            raise PluginError(f"{self._described()} is abstract: it does not define {missing}")
        return found

    def python_form(self) -> Any:
        """The Python function of a command (see ``python_form``), or None."""
        target = getattr(self.load(), "python_form", None)
        return None if target is None else import_target(target)

    def _described(self) -> str:
        return f"{self.kind.replace('_', ' ')} {self.name!r} of {self.owner}"


def import_target(target: str) -> Any:
    """The object that ``module:Class`` names; errors are not converted."""
    module, _, attribute = target.partition(":")
    return operator.attrgetter(attribute)(import_module(module))


def cause(error: BaseException) -> str:
    """An error in one line, with the place in the author's code."""
    words = " ".join(str(error).split())
    text = f"{type(error).__name__}: {words}" if words else type(error).__name__
    if isinstance(error, SyntaxError):  # its message has the line
        return text
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith(_NOT_THEIRS)]
    return f"{text} ({theirs[-1].filename}, line {theirs[-1].lineno})" if theirs else text


_NOT_THEIRS = (
    "<frozen ",
    str(Path(importlib.__file__).parent),
    *(
        str(Path(__file__).with_name(f"{name}.py"))
        for name in ("component", "discovery", "importing", "plugin", "reference")
    ),
)
"""Files that are left out of a plugin's traceback."""

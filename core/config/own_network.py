"""Networks given in Python that no plugin supplies.

    denoiser=net                        a torch.nn.Module; it is used and trained as it is
    denoiser=Net                        its class; the weights depend on the config's seed
    denoiser=partial(Net, width=64)     its class, and options of it

A config records where the code is (a module that is in no package by its file, so that it is found
from any folder) and the options. A class that is defined inside a function or another class can be
used, but not recorded.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import attrs

from ..errors import ConfigError
from ..registry.component import Component, import_target
from ..registry.components import installed
from ..registry.kinds import KINDS
from ..registry.reference import lasting_name, owner_of
from .spec import NotPlainError, attributes


@attrs.frozen
class Own:
    """A user's class and its given options."""

    kind: str
    maker: Any
    options: Mapping[str, Any]
    instance: Any = None  # made already

    @classmethod
    def of(cls, kind: str, given: Any) -> Own | None:
        """A user's class or object of a kind that accepts another library's, else None."""
        if not KINDS[kind].also:
            return None
        theirs = import_target(KINDS[kind].also)
        if isinstance(given, theirs):
            return cls(kind, type(given), {}, given)
        maker, options = given, {}
        if isinstance(given, partial):
            maker, options = given.func, dict(given.keywords)
            if given.args:
                raise ConfigError(f"{kind}: name the options of {_called(maker)}: option=value")
        if isinstance(maker, type) and issubclass(maker, theirs):
            return cls(kind, maker, options)
        return None

    @property
    def component(self) -> Component | None:
        """The component of its code; None if the code cannot be named."""
        module = sys.modules.get(self.maker.__module__)
        if module is None or not self.maker.__qualname__.isidentifier():
            return None
        known = installed().name_of(self.kind, self.maker)
        name = known or lasting_name(self.maker)
        return Component(self.kind, name, owner_of(module), self.maker)

    def kept_options(self) -> dict[str, Any]:
        """The options of the object, read from its attributes."""
        return attributes(self.instance)

    def why_not_plain(self, error: NotPlainError | None) -> str:
        """Why it cannot be recorded, with a remedy."""
        what = _called(self.maker)
        if error is None:
            return (
                f"is {what}, which no other program can find: define it at the top level of a "
                "module"
            )
        return (
            f"is an object of {what}, and what it was made with is not known: keep each option "
            f"as an attribute (self.width = width), or give functools.partial({what}, ...) instead"
        )


def _called(maker: Any) -> str:
    return str(getattr(maker, "__qualname__", maker))

"""Which code a config may execute.

A config given to a command, and its overrides, are the user's own: code they name is executed. A
run and an export may come from somebody else. They name registered components; code they name
(``./file.py:Class``, ``package.module:Class``, ``__main__:Class``) is refused, unless

- the user names it in the same call: an override, or an object in Python, or
- the user trusts the run or export in the same call: ``--trust``, ``trust=True``.

Nothing is kept from one call to the next. ``ELBOWROOM_TRUST=0`` forbids code by reference
everywhere, for services that read configs of others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import attrs

from ..errors import ConfigError, ElbowroomError, PluginError
from .component import Owner

VARIABLE = "ELBOWROOM_TRUST"

_trusted: ContextVar[bool] = ContextVar("trusted", default=False)


class UntrustedCodeError(ElbowroomError):
    """A run or an export names code that the user neither named nor trusts."""


@contextmanager
def trusting(trust: bool = True) -> Iterator[None]:
    """With ``trust``, runs and exports that are read inside may execute the code they name."""
    before = _trusted.set(_trusted.get() or trust)
    try:
        yield
    finally:
        _trusted.reset(before)


@attrs.frozen
class Origin:
    """The run or export that a config is read from."""

    what: str = "run"  # or "export"
    owners: Mapping[str, Owner] = attrs.Factory(dict)  # recorded suppliers, by path in the config

    def refuse_code(self, path: str, name: str, options: Mapping[Any, Any]) -> None:
        """Raise unless the user trusts what is read; ``name`` refers to code."""
        if _trusted.get():
            return
        whole = json.dumps({"name": name, **options}, default=str)
        ways = "pass trust=True"
        if self.what == "run":
            python = f"{path}=..." if path.isidentifier() else f'{{"{path}": ...}}'
            ways = (
                f"name the code yourself, as in {path}=./my.py:Class (in Python er.load(run, "
                f"{python})), or pass --trust (in Python trust=True)"
            )
        raise UntrustedCodeError(
            f"{path}: this {self.what} names code that no installed plugin supplies: {whole}. It "
            f"was not executed. Code can do everything you can do. If you know it, {ways}."
        )


def refuse_if_forbidden(who: str) -> None:
    """Raise where the environment forbids every reference to code."""
    given = os.environ.get(VARIABLE, "").strip()
    if given not in ("", "0"):
        raise ConfigError(f"{VARIABLE} is {given!r}; it must be 0, or not set")
    if given == "0":
        raise PluginError(
            f"{who}: {VARIABLE}=0 forbids code named by reference; use a registered name "
            "(elbowroom plugins lists them)"
        )

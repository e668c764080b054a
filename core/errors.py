"""Errors that a user can fix: a wrong name, a bad value, a damaged file.

The message names the cause and lists the choices. The command line prints it without a traceback
and exits with 2.
"""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Iterable
from typing import ClassVar


class ElbowroomError(Exception):
    """Base of all errors that a user can fix."""

    exit_code: ClassVar[int] = 2
    """Exit code of the command line."""


class ConfigError(ElbowroomError):
    """A config, an override or a SPEC that cannot be read."""


class PluginError(ElbowroomError):
    """A plugin, or a component of one, that cannot be found or loaded."""


class IncompatibleError(ElbowroomError):
    """Two components that cannot work together; the message names both."""


class DataError(ElbowroomError, ValueError):
    """Examples of another form than the model's data."""


class ContractError(ElbowroomError):
    """A component whose result violates its contract; the message names it and the rule."""


def require_package(package: str, purpose: str, extra: str) -> None:
    """Raise an error that names the extra to install if an optional package is missing."""
    if importlib.util.find_spec(package) is None:
        raise PluginError(
            f"{purpose} needs the package {package}: pip install 'elbowroom[{extra}]'"
        )


def is_allocation_failure(error: BaseException) -> bool:
    """Whether an error means that memory could not be allocated, or a size exceeds 64 bits."""
    words = str(error).partition("\n")[0].lower()
    signs = ("allocate memory", "out of memory", "not enough memory", "overflow", "too large")
    return isinstance(error, MemoryError | OverflowError) or (
        isinstance(error, RuntimeError | TypeError | ValueError)
        and any(sign in words for sign in signs)
    )


def did_you_mean(given: str, choices: Iterable[str]) -> str:
    """`` (did you mean 'gaussian'?)`` for the nearest choice, or an empty text."""
    near = difflib.get_close_matches(given, list(choices), n=1, cutoff=0.6)
    return f" (did you mean {near[0]!r}?)" if near else ""

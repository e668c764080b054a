"""The laws of every kind: what :func:`check_component` runs for a component without options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from elbowroom import ElbowroomError, installed
from elbowroom.registry import KINDS, import_target

_HERE = "elbowroom.plugins.conformance"
_INSTANCE = (
    *("process", "schedule", "weighting", "sampler", "time_sampler", "path", "normaliser", "grid"),
    *("guidance", "dataset", "metric", "feature_network", "optimiser", "rate_schedule"),
    *("launcher",),
)


def check_component(kind: str, component: Any) -> None:
    """Run the laws of a kind on one of its components, built with its default options.

    Args:
        kind: The kind, as in ``elbowroom plugins``.
        component: The class (of a command: the function).

    Raises:
        AssertionError: A law is broken; the message lists all that are.
        ElbowroomError: The kind has no laws.
    """
    installed()  # adds the kinds of plugins
    _laws(kind)(component)


def _laws(kind: str) -> Callable[[Any], object]:
    row = KINDS.get(kind)
    if row is not None and row.laws:
        check: Callable[[Any], object] = import_target(row.laws)
        return check
    if kind in (*_INSTANCE, "denoiser", "command"):
        check = import_target(f"{_HERE}.{kind}:check_{kind}")
        return (lambda cls: check(cls())) if kind in _INSTANCE else check
    raise ElbowroomError(f"kind {kind!r} has no laws: its row names none")

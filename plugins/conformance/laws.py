"""The laws of every kind: what :func:`check_component` runs for a component."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from elbowroom import ElbowroomError, installed, named_component
from elbowroom.registry import KINDS, import_target

_WITH_LAWS = (
    *("process", "schedule", "weighting", "denoiser", "sampler", "time_sampler", "path"),
    *("normaliser", "grid", "guidance", "dataset", "command", "metric", "feature_network"),
    *("optimiser", "rate_schedule", "launcher"),
)


def check_component(kind: str, component: Any) -> None:
    """Run the laws of a kind on one of its components, with its default options.

    Args:
        kind: The kind, as in ``elbowroom plugins``.
        component: The class (of a command: the function).

    Raises:
        AssertionError: A law is broken; the message lists all that are.
        ElbowroomError: The kind has no laws.
    """
    installed()  # adds the kinds of plugins
    check = laws_of(kind)
    if check is None:
        raise ElbowroomError(f"kind {kind!r} has no laws")
    check(component)


def laws_of(kind: str) -> Callable[[Any], object] | None:
    """The function that checks a component of this kind; None if the kind has no laws."""
    row = KINDS.get(kind)
    ours = f"elbowroom.plugins.conformance.{kind}:check_{kind}" if kind in _WITH_LAWS else ""
    target = (row.laws if row is not None else "") or ours
    if not target:
        return None
    check: Callable[..., object] = import_target(target)
    if target != ours or kind in ("denoiser", "command"):
        return check
    if kind == "feature_network":
        return lambda cls: _on_digits(check, cls)
    options = {"steps": 64} if kind == "sampler" else {}
    return lambda cls: check(cls(**options))


def _on_digits(check: Callable[..., object], cls: Any) -> object:
    import torch

    data = named_component("dataset", "digits").build()
    return check(cls(data), data.split("test").take(torch.arange(12)).x)

"""Every hook, on one screen.

A *registering* hook takes nothing and returns a mapping from names to components. There is one for
each row of the table of kinds (:mod:`elbowroom.registry.kinds`), and one for presets. A component
is a class (a command: a function), or a ``"module:Class"`` string imported only when it is used. An
*observing* hook takes one frozen :class:`elbowroom.RunEvent`. A plugin is any module with some of
these functions, marked with ``@elbowroom.hookimpl`` and announced under the entry-point group
``elbowroom``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import pluggy

from .kinds import KINDS, Kind

if TYPE_CHECKING:
    from ..contracts.observer import RunEvent

PLUGIN_API = (1, 1)
"""(major, minor). A plugin module may state the version it was made for as ``PLUGIN_API``."""

hookspec = pluggy.HookspecMarker("elbowroom")
hookimpl = pluggy.HookimplMarker("elbowroom")

Components = Mapping[str, Any]
"""What a registering hook returns: name -> class, function, or ``"module:Class"``."""


class Hooks(Protocol):
    """The hooks of plugin API 1 (a Protocol: specifications have no bodies)."""

    # -- registering; those of the kinds follow below

    @hookspec
    def presets(self) -> Mapping[str, str]:
        """Configs shipped as package data: name -> ``"package:path/in/package.yaml"``."""

    # -- observing a run; never in the inner loop, but for ``progressed``

    @hookspec
    def run_started(self, event: RunEvent) -> None:
        """A run begins or resumes."""

    @hookspec
    def step_logged(self, event: RunEvent) -> None:
        """A logging step: scalars, curves and perhaps images."""

    @hookspec
    def progressed(self, event: RunEvent) -> None:
        """About once a second: ``event.step`` steps are through, and ``event.doing`` goes on."""

    @hookspec
    def evaluated(self, event: RunEvent) -> None:
        """Measurements of an evaluation are there."""

    @hookspec
    def checkpoint_saved(self, event: RunEvent) -> None:
        """A checkpoint is complete on disk."""

    @hookspec
    def run_ended(self, event: RunEvent) -> str | None:
        """A run ended; ``event.reason`` says why. A line that is returned is shown to the user."""


def _registering(kind: Kind) -> Callable[[Any], Components]:
    def hook(self: Any) -> Components: ...  # type: ignore[empty-body]  # a specification

    hook.__name__, hook.__qualname__ = kind.hook, f"Hooks.{kind.hook}"
    hook.__doc__ = f"{kind.meaning}: name -> {kind.contract.rpartition(':')[2]}."
    return hook


for _kind in KINDS.values():
    setattr(Hooks, _kind.hook, hookspec(_registering(_kind)))

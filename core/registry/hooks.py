"""Every hook, on one screen.

A *registering* hook takes nothing and returns a mapping from names to components. A component is
a class, or a ``"module:Class"`` string imported only when it is used. An *observing* hook takes
one frozen :class:`elbowroom.RunEvent`. A plugin is any module with some of these
functions, marked with ``@elbowroom.hookimpl`` and announced under the entry-point group
``elbowroom``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import pluggy

if TYPE_CHECKING:
    from ..contracts.observer import RunEvent

PLUGIN_API = (1, 0)
"""(major, minor). A plugin module may state the version it was made for as ``PLUGIN_API``."""

hookspec = pluggy.HookspecMarker("elbowroom")
hookimpl = pluggy.HookimplMarker("elbowroom")

Components = Mapping[str, "type[Any] | str"]


class Hooks(Protocol):
    """The hooks of plugin API 1 (a Protocol: specifications have no bodies)."""

    # -- registering: name -> class or "module:Class"

    @hookspec
    def processes(self) -> Components:
        """Noise processes: :class:`elbowroom.Process`."""

    @hookspec
    def schedules(self) -> Components:
        """Log-SNR schedules: :class:`elbowroom.Schedule`."""

    @hookspec
    def weightings(self) -> Components:
        """Weightings of the objective: :class:`elbowroom.Weighting`."""

    @hookspec
    def denoisers(self) -> Components:
        """Networks: :class:`elbowroom.Denoiser`."""

    @hookspec
    def samplers(self) -> Components:
        """Samplers: :class:`elbowroom.Sampler`."""

    @hookspec
    def time_samplers(self) -> Components:
        """Where an objective is looked at: :class:`elbowroom.TimeSampler`."""

    @hookspec
    def datasets(self) -> Components:
        """Data sets: :class:`elbowroom.Dataset`."""

    @hookspec
    def metrics(self) -> Components:
        """Figures about samples: :class:`elbowroom.Metric`."""

    @hookspec
    def launchers(self) -> Components:
        """Where the points of a comparison run: :class:`elbowroom.Launcher`."""

    @hookspec
    def exporters(self) -> Components:
        """Forms a run can be written in for other libraries: :class:`elbowroom.Exporter`."""

    @hookspec
    def presets(self) -> Mapping[str, str]:
        """Configs shipped as package data: name -> ``"package:path/in/package.yaml"``."""

    # -- observing a run; called at logging steps only, never in the inner loop

    @hookspec
    def run_started(self, event: RunEvent) -> None:
        """A run begins or resumes."""

    @hookspec
    def step_logged(self, event: RunEvent) -> None:
        """A logging step: scalars, curves and perhaps images."""

    @hookspec
    def evaluated(self, event: RunEvent) -> None:
        """Figures of an evaluation are there."""

    @hookspec
    def checkpoint_saved(self, event: RunEvent) -> None:
        """A checkpoint is complete on disk."""

    @hookspec
    def run_ended(self, event: RunEvent) -> None:
        """A run ended; ``event.reason`` says why."""

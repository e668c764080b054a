"""Every hook of core, on one page.

A plugin is a module with functions marked ``@elbowroom.hookimpl``, announced under the entry-point
group ``elbowroom``. A *registering* hook takes nothing and returns a mapping from names to
components: classes (commands: functions), or ``"module:Class"`` strings that are imported when the
component is used. The registry calls it once, when plugins are loaded. An *observing* hook takes
one frozen :class:`elbowroom.RunEvent`; the training loop calls it.

A plugin that defines a kind (hook ``kinds``) defines the registering hook of that kind with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import pluggy

from .kinds import Kind

if TYPE_CHECKING:
    from ..config.assembly import Parts
    from ..config.explain import Remark
    from ..contracts.observer import RunEvent
    from ..objective.diffusion import Diffusion

PLUGIN_API = (1, 1)
"""(major, minor). A plugin module may state the version it was made for as ``PLUGIN_API``."""

hookspec = pluggy.HookspecMarker("elbowroom")
hookimpl = pluggy.HookimplMarker("elbowroom")

Components = Mapping[str, Any]
"""What a registering hook returns: name -> class, function, or ``"module:Class"``."""


class Hooks(Protocol):
    """The hooks of plugin API 1 (a Protocol: specifications have no bodies)."""

    # -- registering: the parts of a model

    @hookspec
    def processes(self) -> Components:
        """Noise processes: name -> Process."""

    @hookspec
    def schedules(self) -> Components:
        """Log-SNR schedules: name -> Schedule."""

    @hookspec
    def weightings(self) -> Components:
        """Weightings of the objective: name -> Weighting."""

    @hookspec
    def denoisers(self) -> Components:
        """Networks: name -> Denoiser, or a class of torch.nn.Module."""

    @hookspec
    def samplers(self) -> Components:
        """Samplers of the reverse process: name -> Sampler."""

    @hookspec
    def time_samplers(self) -> Components:
        """Distributions of training times: name -> TimeSampler."""

    @hookspec
    def paths(self) -> Components:
        """Times of the positions along the diffusion: name -> Path."""

    @hookspec
    def normalisers(self) -> Components:
        """Reductions of a batch loss: name -> Normaliser."""

    @hookspec
    def grids(self) -> Components:
        """Time grids of samplers: name -> Grid."""

    @hookspec
    def guidances(self) -> Components:
        """Guidance methods: name -> Guidance."""

    @hookspec
    def datasets(self) -> Components:
        """Data sets: name -> Dataset."""

    # -- registering: what extends elbowroom

    @hookspec
    def commands(self) -> Components:
        """Commands of the command line: name -> function."""

    @hookspec
    def sections(self) -> Components:
        """Sections of the config: name -> attrs class, read like the built-in sections."""

    @hookspec
    def presets(self) -> Mapping[str, str]:
        """Configs shipped as package data: name -> ``"package:path/in/package.yaml"``."""

    @hookspec
    def kinds(self) -> Iterable[Kind]:
        """Kinds of component that this plugin defines."""

    # -- accepting objects of other libraries

    @hookspec(firstresult=True)
    def adapt(self, kind: str, given: Any) -> Any:
        """Convert an object given for a component of ``kind`` in Python, or return None.

        Called for an object that is neither a name, a mapping nor a component of that kind, such as
        a torch data set given as ``data``.
        """

    # -- adding to ``elbowroom explain``

    @hookspec
    def explain(self, parts: Parts) -> Remark | None:
        """Return a remark on the model that a config describes."""

    # -- checking a model

    @hookspec
    def assembled(self, model: Diffusion) -> None:
        """Called with each model that ``elbowroom.assemble`` builds; raises to refuse it."""

    # -- observing a run; never in the inner loop, except ``progressed``

    @hookspec
    def run_started(self, event: RunEvent) -> None:
        """Called when a run starts or resumes."""

    @hookspec
    def step_scalars(self, event: RunEvent, model: Diffusion) -> Mapping[str, float] | None:
        """Return scalars to log with a step, by name.

        Called on the first rank before the line of a logging step is written. ``event`` has the
        scalars and curves measured so far. What is returned is written to the log and passed to
        ``step_logged``.
        """

    @hookspec
    def step_logged(self, event: RunEvent) -> None:
        """Called at each logging step with scalars, curves and possibly images."""

    @hookspec
    def progressed(self, event: RunEvent) -> None:
        """Called about once a second with the number of finished steps and the current phase."""

    @hookspec
    def evaluated(self, event: RunEvent) -> None:
        """Called with the measurements of an evaluation."""

    @hookspec
    def checkpoint_saved(self, event: RunEvent) -> None:
        """Called when a checkpoint is complete on disk."""

    @hookspec
    def run_ended(self, event: RunEvent) -> str | None:
        """Called when a run ends, for ``event.reason``. A returned line is shown to the user."""


def hook_of(kind: Kind) -> type[Any]:
    """The specification of the hook that registers components of a plugin's kind."""

    def hook(self: Any) -> Components: ...  # type: ignore[empty-body]  # a specification

    hook.__name__, hook.__qualname__ = kind.hook, f"Hooks.{kind.hook}"
    hook.__doc__ = f"{kind.meaning}: name -> {kind.contract.rpartition(':')[2]}."
    return type("KindHooks", (), {kind.hook: hookspec(hook)})

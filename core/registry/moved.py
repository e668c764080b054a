"""Where modules went: an import by an old name still works, and says the new one.

Until version 0.1 core was one flat folder. A deep import of then (``elbowroom.process``) is led to
the module of now with a :class:`DeprecationWarning`, so that older plugins, runs and exports go on.
Public names never moved: they are in ``elbowroom`` itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_ROOMS = {
    "files": "atomic cache_home digest json_file lock state_home",
    "randomness": "philox noise order=shuffle categorical generators",
    "contracts": (
        "level prediction path=trajectory process schedule weighting denoiser sampler "
        "time_sampler dataset metric launcher exporter observer"
    ),
    "objective": "diffusion guidance half_even=evaluation_schedule looks boundary",
    "certificate": "survey slack meaning",
    "registry": (
        "hookspecs=hooks discovery plugin component reference trust doctor importing supplier"
    ),
    "config": (
        "yaml_reader override preset schema=reader options=schema scalars wording=messages "
        "component_spec=spec assembly explain sizes"
    ),
    "runs": "run_folder=folder checkpoint distributed=ranks devices working",
    "conformance": "answers oracle",
    "sampling": "picture reel=filmstrip trained_levels",
    "training": (
        "fitting=loop update=step feed=batches ema window=log_window fault=non_finite "
        "interrupt=signals validation learning_rate"
    ),
    "plugins.compare": (
        "comparison point adoption=shared_training results differences column=decimals "
        "paper=paper_table report"
    ),
    "plugins.bench": "bare_loop silent=replay_network timing bench",
    "plugins.paper": "theory cascade figures",
    "plugins.new_plugin": "new_plugin",
}

_INSIDE = {
    "config": "sections",
    "objective": "loss",
    "certificate": "certify",
    "registry": "components",
    "sampling": "draw",
    "training": "run",
    "evaluation": "evaluation",
}
"""Rooms that have the name of an old module: what was in it is in this module of the room."""

_RENAMED = {"registry": "installed", "Protocol": "EvaluationProtocol"}


def _table() -> dict[str, str]:
    found = {}
    for room, modules in _ROOMS.items():
        for module in modules.split():
            old, _, new = module.partition("=")
            found[f"elbowroom.{old}"] = f"elbowroom.{room}.{new or old}"
    return found


MOVED = _table()
"""Old module -> new module."""


class Forwarder(Loader):
    """Loads the module of now under its old name."""

    def __init__(self, old: str) -> None:
        self._old, self._new = old, MOVED[old]

    def create_module(self, spec: ModuleSpec) -> ModuleType:  # the protocol's
        """The new module itself."""
        warnings.warn(
            f"{self._old} has moved to {self._new}; public names are in elbowroom itself",
            DeprecationWarning,
            stacklevel=2,
        )
        module = import_module(self._new)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to do but to give the module its own name back."""
        module.__spec__ = self._spec


class Finder:
    """Finds modules that have moved; asked last, when nobody else knows the name."""

    @staticmethod
    def find_spec(
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG004  # the protocol's
        target: ModuleType | None = None,  # noqa: ARG004
    ) -> ModuleSpec | None:
        """A spec for an old name."""
        return ModuleSpec(name, Forwarder(name)) if name in MOVED else None


def from_room(room: str, name: str) -> Any:
    """What a module had by the name that is a room's now: ``elbowroom.config.Config``."""
    short = room.partition(".")[2]
    home = f"{room}.{_INSIDE[short]}" if short in _INSIDE else None
    found = None if home is None else getattr(import_module(home), _RENAMED.get(name, name), None)
    if found is None or name.startswith("__"):
        raise AttributeError(f"module {room!r} has no attribute {name!r}")
    warnings.warn(
        f"{room}.{name} has moved to {home}; public names are in elbowroom itself",
        DeprecationWarning,
        stacklevel=3,
    )
    return found

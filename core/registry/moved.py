"""Where modules went: an import by an old name still works, and says the new one.

Until version 0.1 core was one flat folder. A deep import of then (``elbowroom.process``) is led to
the module of now with a :class:`DeprecationWarning`, so that older plugins, runs and exports go on.
Public names never moved: they are in ``elbowroom`` itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

_ROOMS = {
    "files": "atomic cache_home digest json_file lock state_home",
    "randomness": "philox noise order=shuffle categorical generators",
    "contracts": (
        "level prediction path=trajectory process schedule weighting denoiser sampler "
        "time_sampler dataset metric launcher exporter observer"
    ),
    "objective": (
        "objective=loss diffusion guidance=classifier_free half_even=evaluation_schedule looks "
        "boundary"
    ),
    "certificate": "certificate survey slack meaning",
    "registry": (
        "registry=components hookspecs=hooks discovery plugin component reference trust doctor "
        "importing supplier"
    ),
    "config": (
        "config=sections yaml_reader override preset schema=reader scalars=reader options=schema "
        "wording=messages component_spec=spec assembly explain sizes"
    ),
    "runs": "run_folder=folder checkpoint distributed=ranks devices working=precision",
    "conformance": "answers oracle",
    "sampling": "sampling=drawing picture reel=filmstrip trained_levels",
    "training": (
        "training=run fitting=loop update=step feed=batches ema window=log_window "
        "fault=non_finite interrupt=signals validation"
    ),
    "evaluation": "evaluation",
    "cli": "cli.show=output",
    "plugins.compare": (
        "comparison point adoption=shared_training results differences column=decimals "
        "paper=paper_table report cli.compare=command"
    ),
    "plugins.bench": "bare_loop silent=replay_network timing bench cli.bench=command",
    "plugins.paper": (
        "theory cascade figures cli.theory=theory_command cli.figures=figures_command "
        "cli.weighting=weighting_command"
    ),
    "plugins.new_plugin": "new_plugin cli.new_plugin=command",
}
"""Room -> old modules that are in it now, as ``old=new`` where they have another name. A room may
have the name of an old module (``elbowroom.config``): what was in that is in the room."""

_FOLDERS = {
    (
        "plugins.uvit",
        "plugins.denoisers",
    ): "attention condition dit layers positions residual transformer uvit values",
    (
        "plugins.diffusers_export",
        "plugins.diffusers.export",
    ): "card exporter model pipeline scheduler sections",
    ("plugins.diffusers_sampler", "plugins.diffusers"): "coordinates sampler",
}
"""(old folder, new folder) -> the modules in it."""

_RENAMED = {
    "cache_home.cache_home": ":cache_folder",
    "component_spec.plain": ":to_plain",
    "config.component": ":named_component",
    "config.Objective": ".config.sections:ObjectiveSection",
    "devices.check_name": ":check_device",
    "evaluation.EvaluationReport": ".evaluation.run:EvaluationReport",
    "evaluation.Protocol": ":EvaluationProtocol",
    "evaluation.evaluate_run": ":evaluate_run",
    "evaluation.evaluation_folder": ":evaluation_folder",
    "evaluation.read_evaluation": ":read_evaluation",
    "exporter.export_run": ".runs.export:export_run",
    "guidance.guided": ".objective.diffusion:Diffusion.guided",
    "level.spread": ":broadcast_over",
    "meaning.in_words": ":describe_weighting",
    "metric.Figure": ":Measurement",
    "observer.Observers": ".training.observers:Observers",
    "order.some": ":some_of",
    "path.Path": ":Trajectory",
    "path.precision": ":level_precision",
    "registry.registry": ":installed",
    "run_folder.LogSoFar": ".runs.log_file:LogSoFar",
    "run_folder.check_unchanged": ":check_unchanged",
    "run_folder.remember_code": ":remember_code",
    "sampling.Loaded": ":Loaded",
    "sampling.SampleReport": ".sampling.write:SampleReport",
    "sampling.load_run": ":load_run",
    "sampling.sample_run": ".sampling.write:sample_run",
    "schema.component": ":named_component",
    "slack.Curve": ":LossCurve",
    "slack.evenly": ":cell_widths",
    "survey.levels": ":levels_at",
}
"""Old name -> its place in elbowroom, where that is not what :data:`MOVED` says."""


def _table() -> dict[str, str]:
    found = {}
    for room, modules in _ROOMS.items():
        for module in modules.split():
            old, _, new = module.partition("=")
            found[f"elbowroom.{old}"] = f"elbowroom.{room}.{new or old}"
    for (old, new), modules in _FOLDERS.items():
        found[f"elbowroom.{old}"] = f"elbowroom.{new}"
        for module in modules.split():
            found[f"elbowroom.{old}.{module}"] = f"elbowroom.{new}.{module}"
    return found


MOVED = _table()
"""Old module -> new module."""


class Finder(Loader):
    """Finds modules that have moved; asked last, when nobody else knows the name."""

    @classmethod
    def find_spec(
        cls,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG003  # the protocol's
        target: ModuleType | None = None,  # noqa: ARG003
    ) -> ModuleSpec | None:
        """A spec for an old name."""
        if name not in MOVED:
            return None
        holds_others = any(old.startswith(f"{name}.") for old in MOVED)
        return ModuleSpec(name, cls(), is_package=holds_others)

    def exec_module(self, module: ModuleType) -> None:
        """Let the module have what the one of now has."""
        old = module.__name__
        new = import_module(MOVED[old])
        _warn(f"{old} is {new.__name__} now")
        found = {name: value for name, value in vars(new).items() if not name.startswith("__")}
        vars(module).update(found, __doc__=new.__doc__, __getattr__=old_names(old))


def old_names(old: str) -> Callable[[str], Any]:
    """``__getattr__`` of an old module, or of a room that has its name: what is not in it now."""
    new = MOVED[old]

    def moved(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        renamed = _RENAMED.get(f"{old}.{name}".partition(".")[2])
        place = f"{new}:{name}" if renamed is None else f"elbowroom{renamed}"
        try:
            found = resolve_name(place)
        except AttributeError:
            raise AttributeError(f"{old} is {new} now, which has no {name!r}") from None
        public = getattr(import_module("elbowroom"), name, None) is found
        _warn(f"{old}.{name} is {f'elbowroom.{name}' if public else place.replace(':', '.')} now")
        return found

    return moved


def _warn(what: str) -> None:
    warnings.warn(f"{what}; public names are in elbowroom itself", DeprecationWarning, stacklevel=3)

"""Diagnosis of the installed plugins: import times, broken components, conflicting names.

Components are not imported: ``"module:Class"`` is looked up in the source of the module.
``load=True`` imports every component and checks it against the contract of its kind.
"""

from __future__ import annotations

import ast
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata, resources
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import attrs
from elbowroom import PLUGIN_API, PluginError
from elbowroom.registry import KINDS, Component, Owner, Plugin, Registry, cause

SLOW = 0.1
"""Seconds after which importing a plugin counts as slow."""


@attrs.frozen
class Finding:
    """A problem of a plugin, or between plugins."""

    level: Literal["error", "warning", "note"]
    about: str  # the plugin or component
    text: str


@attrs.frozen
class Report:
    """All plugins and findings, the most severe first."""

    plugins: tuple[Plugin, ...]
    findings: tuple[Finding, ...]
    loaded: Mapping[Component, float]  # seconds to load each component, with ``load=True``

    @property
    def healthy(self) -> bool:
        """Whether there are no errors."""
        return all(finding.level != "error" for finding in self.findings)

    def record(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "api": list(PLUGIN_API),
            "healthy": self.healthy,
            "seconds": sum(plugin.seconds for plugin in self.plugins),
            "plugins": [self._record(plugin) for plugin in self.plugins],
            "findings": [attrs.asdict(finding) for finding in self.findings],
        }

    def _record(self, plugin: Plugin) -> dict[str, Any]:
        found = ((c, self.loaded[c]) for c in plugin.components if c in self.loaded)
        return {
            **plugin.record(),
            "seconds": plugin.seconds,
            "imports": list(plugin.heavy),
            "registers": plugin.registers,
            "loaded": {f"{c.kind} {c.name}": seconds for c, seconds in found},
            "traceback": None if plugin.error is None else plugin.error.traceback,
        }


def examine(
    entry_points: Iterable[metadata.EntryPoint] | None = None, *, load: bool = False
) -> Report:
    """Load the plugins of these entry points (default: all installed) and check each."""
    registry = Registry.load(entry_points)
    loaded: dict[Component, float] = {}
    findings: list[Finding] = []
    for plugin in registry.plugins:
        findings += _of_plugin(plugin)
        for component in plugin.components:
            begin = time.perf_counter()
            if wrong := _load(component) if load else _look_up(component):
                about = f"{KINDS[component.kind].words} {component.name} of {plugin}"
                findings.append(Finding("error", about, wrong))
            if load:
                loaded[component] = time.perf_counter() - begin
    findings += _of_names(registry)
    if registry.left_out:
        names = ", ".join(registry.left_out)
        findings.append(Finding("note", "ELBOWROOM_PLUGINS", f"excludes {names}"))
    order = ("error", "warning", "note")
    findings.sort(key=lambda finding: order.index(finding.level))
    return Report(registry.plugins, tuple(findings), loaded)


# -- one plugin


def _of_plugin(plugin: Plugin) -> Iterator[Finding]:
    who = str(plugin)
    if plugin.error is not None:
        yield Finding("error", who, plugin.error.cause)
    for note in plugin.notes:
        yield Finding("warning", who, note)
    if plugin.heavy:
        yield Finding(
            "warning",
            who,
            f"imports {', '.join(plugin.heavy)} when plugins are listed: register its components "
            'as "module:Class"',
        )
    elif plugin.seconds > SLOW:
        yield Finding("warning", who, f"takes {plugin.seconds:.2f} s to import")
    if plugin.error is None and not plugin.components and not plugin.presets:
        observes = any(hasattr(one, "elbowroom_impl") for one in _functions(plugin))
        if not observes:
            yield Finding("warning", who, "has no hooks: mark them with @elbowroom.hookimpl")
    if plugin.api is not None and plugin.api > PLUGIN_API:
        yield Finding(
            "note",
            who,
            f"was made for plugin API {plugin.api[0]}.{plugin.api[1]}; this is "
            f"{PLUGIN_API[0]}.{PLUGIN_API[1]}, so some of its hooks may not be called",
        )
    for name, place in plugin.presets.items():
        package, _, path = place.partition(":")
        try:
            there = resources.files(package).joinpath(*path.split("/")).is_file()
        except (ImportError, OSError, TypeError) as error:
            there, path = False, f"{path} ({cause(error)})"
        if not there:
            yield Finding("error", f"preset {name} of {who}", f"{package} has no file {path}")


def _functions(plugin: Plugin) -> Iterator[Any]:
    module = sys.modules.get(plugin.module.partition(":")[0])
    yield from vars(module).values() if isinstance(module, ModuleType) else ()


# -- one component


def _load(component: Component) -> str:
    """The error of loading it, or an empty string."""
    try:
        component.load()
    except PluginError as error:
        return str(error)
    return ""


def _look_up(component: Component) -> str:
    """The error of its ``"module:Class"`` that is visible without importing it."""
    if not isinstance(component.target, str):
        return ""
    module, _, attribute = component.target.partition(":")
    try:
        spec = find_spec(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):  # a module that it imports
            return f"names {component.target!r}: {cause(error)}"
        spec = None
    except (Exception, SystemExit) as error:  # a parent package is imported to find it
        return f"names {component.target!r}: {cause(error)}"
    if spec is None:
        return f"names {component.target!r}, and there is no module {module!r}"
    names = _names_in(spec)
    if names is not None and attribute.partition(".")[0] not in names:
        return f"names {component.target!r}, and {spec.origin} has no {attribute!r}"
    return ""


def _names_in(spec: ModuleSpec) -> set[str] | None:
    """The names that a module's source defines; None if they are dynamic."""
    if not spec.has_location or not str(spec.origin).endswith(".py"):
        return None
    try:
        tree = ast.parse(Path(str(spec.origin)).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return set()  # nothing of it can be loaded
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
    return None if {"*", "__getattr__"} & names else names


# -- several plugins


def _of_names(registry: Registry) -> Iterator[Finding]:
    """Names that several distributions supply."""
    suppliers: dict[str, dict[str, Owner]] = {}  # "kind name" -> qualified names
    for kind in KINDS.values():
        for way, component in registry.components(kind.name).items():
            suppliers.setdefault(f"{kind.words} {component.name}", {})[way] = component.owner
    for way, (owner, _) in registry.presets().items():
        suppliers.setdefault(f"preset {way.rpartition('/')[2]}", {})[way] = owner
    for name, ways in suppliers.items():
        if len(ways) > 1:
            owners = " and ".join(map(str, ways.values()))
            text = f"is supplied by {owners}: configs must write {' or '.join(ways)}"
            yield Finding("warning", name, text)

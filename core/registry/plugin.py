"""A plugin: a module that an entry point announces, loaded and checked, working or broken.

A plugin is used if its module imports, its ``PLUGIN_API`` is supported, every marked function is a
hook with that hook's arguments, and every registering hook returns names with classes or
``"module:Class"`` strings. Anything else is recorded as the plugin's failure.
"""

from __future__ import annotations

import inspect
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import metadata
from typing import Any

import attrs
import pluggy

from ..errors import PluginError, did_you_mean
from .component import NAME, TARGET, Component, Owner, cause
from .discovery import Announcement, normalised
from .hooks import PLUGIN_API, Hooks, hook_of
from .importing import importing
from .kinds import KINDS, Kind

HEAVY = ("torch", "sklearn", "scipy", "matplotlib", "diffusers", "transformers", "torchmetrics")
"""Libraries that no plugin should import at module level."""


@attrs.frozen
class Failure:
    """Why a plugin is broken."""

    cause: str  # one line
    traceback: str = attrs.field(default="", repr=False)

    def __str__(self) -> str:
        return self.cause


@attrs.frozen
class Plugin:
    """One announced plugin, working or broken."""

    name: str  # of the entry point
    module: str
    distribution: str
    version: str
    api: tuple[int, int] | None = None  # its PLUGIN_API, if stated
    components: tuple[Component, ...] = ()
    presets: Mapping[str, str] = attrs.Factory(dict)  # name -> "package:path/in/package.yaml"
    error: Failure | None = None
    notes: tuple[str, ...] = ()  # likely mistakes that break nothing
    seconds: float = 0.0  # to import it
    heavy: tuple[str, ...] = ()  # of HEAVY, those it was the first to import

    @property
    def owner(self) -> Owner:
        """The supplier of its components."""
        return Owner(self.distribution, self.version, self.name)

    @property
    def registers(self) -> dict[str, list[str]]:
        """Kind -> names; presets among them."""
        found: dict[str, list[str]] = {}
        for component in self.components:
            found.setdefault(component.kind, []).append(component.name)
        return {**found, "preset": list(self.presets)} if self.presets else found

    def record(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "name": self.name,
            "module": self.module,
            "distribution": self.distribution,
            "version": self.version,
            "api": None if self.api is None else list(self.api),
            "error": None if self.error is None else self.error.cause,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        return f"{self.name} ({self.distribution} {self.version})"


def load_plugins(
    announced: Iterable[Announcement], manager: pluggy.PluginManager, strict: bool
) -> list[Plugin]:
    """Load every announced plugin; broken ones are not registered with ``manager``.

    All modules are imported, and the kinds they define are added, before any component is read.
    """
    imported = [_import(one, manager, strict) for one in announced]
    plugins: list[Plugin] = []
    for plugin, module in imported:
        plugins.append(
            plugin if plugin.error else _finish(plugin, module, manager, plugins, strict)
        )
    return plugins


def _import(
    announced: Announcement, manager: pluggy.PluginManager, strict: bool
) -> tuple[Plugin, Any]:
    """Import a plugin's module and add the kinds it defines."""
    plugin = Plugin(announced.name, announced.module, announced.distribution, announced.version)
    begin, before = time.perf_counter(), set(sys.modules)
    try:
        with importing():
            module = announced.load()
            heavy = tuple(name for name in HEAVY if name in sys.modules.keys() - before)
            seconds = time.perf_counter() - begin
            plugin = attrs.evolve(plugin, seconds=seconds, heavy=heavy)
            plugin = attrs.evolve(plugin, api=_api(module, announced))
            for kind in _kinds_of(module, manager):
                _add_kind(kind, manager)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        seconds = plugin.seconds or time.perf_counter() - begin
        return _failed(attrs.evolve(plugin, seconds=seconds), error, strict), None
    return plugin, module


def _finish(
    plugin: Plugin,
    module: Any,
    manager: pluggy.PluginManager,
    earlier: Iterable[Plugin],
    strict: bool,
) -> Plugin:
    """Check an imported plugin's hooks, read its components and register it."""
    try:
        plugin = attrs.evolve(plugin, notes=tuple(_unmarked(module)))
        with importing():
            plugin = _with_components(plugin, _hooks_of(module, manager, plugin.api))
        _refuse_repetition(plugin, earlier, manager, module)
        _register(module, manager, f"{normalised(plugin.distribution)}/{plugin.name}")
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return _failed(plugin, error, strict)
    return plugin


def _failed(plugin: Plugin, error: BaseException, strict: bool) -> Plugin:
    """The plugin with ``error`` as its failure; other plugins are not affected."""
    why = str(error) if isinstance(error, PluginError) else cause(error)
    if strict:
        raise PluginError(f"plugin {plugin} is broken: {why}") from error
    text = "".join(traceback.format_exception(error))
    return attrs.evolve(plugin, components=(), presets={}, error=Failure(why, text))


def _kinds_of(module: Any, manager: pluggy.PluginManager) -> Iterator[Kind]:
    if not hasattr(module, "kinds") or manager.parse_hookimpl_opts(module, "kinds") is None:
        return
    for kind in module.kinds():
        if not isinstance(kind, Kind):
            raise PluginError(f"kinds() returned {kind!r}; it must return elbowroom.Kind rows")
        yield kind


def _add_kind(kind: Kind, manager: pluggy.PluginManager) -> None:
    """Add a plugin's kind to the table, and its hook to the manager."""
    clash = [row for row in KINDS.values() if row != kind and kind.name == row.name]
    clash += [row for row in KINDS.values() if row.name != kind.name and row.hook == kind.hook]
    if clash or hasattr(Hooks, kind.hook):
        raise PluginError(f"kinds(): kind {kind.name!r} or its hook {kind.hook!r} exists already")
    KINDS[kind.name] = kind
    if not hasattr(manager.hook, kind.hook):
        manager.add_hookspecs(hook_of(kind))


def _registering() -> tuple[str, ...]:
    """The hooks that return names."""
    return (*(kind.hook for kind in KINDS.values()), "presets")


def all_hooks() -> tuple[str, ...]:
    """Every hook, those that register components first."""
    first = _registering()
    return (*first, *(name for name in vars(Hooks) if name[0] != "_" and name not in first))


def _api(module: Any, announced: Announcement) -> tuple[int, int] | None:
    """The plugin API that the plugin states; a newer major version is refused."""
    stated = getattr(module, "PLUGIN_API", None)
    if stated is None:
        return None
    whole = (stated, 0) if type(stated) is int else stated
    if not (
        isinstance(whole, tuple)
        and len(whole) == 2
        and all(type(part) is int and part >= 0 for part in whole)
    ):
        raise PluginError(f"PLUGIN_API is {stated!r}; it must be a number or (major, minor)")
    major, minor = whole
    if major > PLUGIN_API[0]:
        raise PluginError(
            f"made for plugin API {major}.{minor}, but elbowroom {metadata.version('elbowroom')} "
            f"has plugin API {PLUGIN_API[0]}.{PLUGIN_API[1]}: upgrade elbowroom, "
            f"or install an older {announced.distribution}"
        )
    return major, minor


def _hooks_of(
    module: Any, manager: pluggy.PluginManager, api: tuple[int, int] | None
) -> list[tuple[str, Callable[..., Any]]]:
    """(hook, function) of every marked function, checked against the hook's specification."""
    found = []
    for attribute in dir(module):
        options = manager.parse_hookimpl_opts(module, attribute)
        if options is None:
            continue
        hook = options.get("specname") or attribute
        function = getattr(module, attribute)
        known = all_hooks()
        if hook not in known:
            if options.get("optionalhook"):
                continue
            made_for = f"; it was made for plugin API {api[0]}.{api[1]}" if api else ""
            raise PluginError(
                f"unknown hook {hook!r}{did_you_mean(hook, known)}; "
                f"the hooks of plugin API {PLUGIN_API[0]}.{PLUGIN_API[1]} are "
                f"{', '.join(known)}{made_for}"
            )
        _check_arguments(hook, function)
        if hook in _registering():
            if options.get("wrapper") or options.get("hookwrapper"):
                raise PluginError(f"{hook}() is a wrapper: a plugin answers for its own names only")
            found.append((hook, function))
    return found


def _check_arguments(hook: str, function: Callable[..., Any]) -> None:
    spec = getattr(Hooks, hook, None)  # a plugin's kind has no arguments
    taken = [] if spec is None else list(inspect.signature(spec).parameters)[1:]  # without self
    for name, parameter in inspect.signature(function).parameters.items():
        right = f"write it as {hook}({', '.join(taken)})"
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.default is not parameter.empty:
            continue  # pluggy never passes it
        if name not in taken:
            raise PluginError(f"hook {hook}() has no argument {name!r}: {right}")
        if parameter.kind is parameter.KEYWORD_ONLY:
            raise PluginError(f"hook {hook}() cannot take {name!r} by keyword only: {right}")


def _unmarked(module: Any) -> Iterator[str]:
    """Notes on functions named like a registering hook but not marked."""
    for name in _registering():
        function = vars(module).get(name) if hasattr(module, "__dict__") else None
        if (
            inspect.isfunction(function)
            and function.__module__ == getattr(module, "__name__", None)
            and not hasattr(function, "elbowroom_impl")
        ):
            yield f"{name}() is not marked with @elbowroom.hookimpl, so it is not a hook"


def _with_components(plugin: Plugin, hooks: Iterable[tuple[str, Callable[..., Any]]]) -> Plugin:
    """The plugin with the components that its registering hooks return."""
    components: dict[tuple[str, str], Component] = {}
    presets: dict[str, str] = {}
    kinds = {kind.hook: kind for kind in KINDS.values()}
    for hook, function in hooks:
        for name, value in _names(hook, function()):
            if name in presets if hook == "presets" else (hook, name) in components:
                raise PluginError(f"{hook}() is there twice, and both times names {name!r}")
            if hook == "presets":
                presets[name] = _checked_location(name, value)
            else:
                kind = kinds[hook]
                target = _checked_target(kind, name, value)
                components[hook, name] = Component(kind.name, name, plugin.owner, target)
    return attrs.evolve(plugin, components=tuple(components.values()), presets=presets)


def _names(hook: str, returned: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(returned, Mapping):
        raise PluginError(f"{hook}() must return a mapping of names, not {returned!r}")
    for name, value in returned.items():
        if not isinstance(name, str) or NAME.fullmatch(name) is None:
            raise PluginError(
                f"{hook}() names something {name!r}; a name is letters, digits and . _ + -, "
                "and begins with a letter or digit"
            )
        yield name, value


def _checked_target(kind: Kind, name: str, value: Any) -> Any:
    right = isinstance(value, type) if kind.is_class else inspect.isfunction(value)
    if right or (isinstance(value, str) and TARGET.fullmatch(value)):
        return value
    due = 'a class or "module:Class"' if kind.is_class else 'a function or "module:function"'
    raise PluginError(f"{kind.hook}() gives {name!r} as {value!r}; it must be {due}")


def _checked_location(name: str, value: Any) -> str:
    package, _, path = value.partition(":") if isinstance(value, str) else ("", "", "")
    parts = path.split("/")
    if not package or not path or ".." in parts or "" in parts:
        raise PluginError(
            f"presets() gives {name!r} as {value!r}; it must be "
            '"package:path/in/package.yaml", inside the package'
        )
    return f"{package}:{path}"


def _refuse_repetition(
    plugin: Plugin, earlier: Iterable[Plugin], manager: pluggy.PluginManager, module: Any
) -> None:
    """Refuse a module announced twice, and a name supplied twice by a distribution."""
    if manager.is_registered(module):
        raise PluginError(f"{plugin.module} is announced already, as {manager.get_name(module)}")
    mine = {(component.kind, component.name) for component in plugin.components}
    mine |= {("preset", name) for name in plugin.presets}
    for other in earlier:
        if normalised(other.distribution) != normalised(plugin.distribution):
            continue
        theirs = {(component.kind, component.name) for component in other.components}
        theirs |= {("preset", name) for name in other.presets}
        for kind, name in sorted(mine & theirs):
            raise PluginError(
                f"{kind.replace('_', ' ')} {name!r} is supplied already by plugin {other.name!r} "
                "of the same distribution"
            )


def _register(module: Any, manager: pluggy.PluginManager, name: str) -> None:
    try:
        manager.register(module, name)
    except Exception:
        if manager.is_registered(module):  # pluggy 1.6 leaves it half registered
            manager.unregister(module)
        raise

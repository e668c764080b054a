"""The registry: every plugin that is installed, and the component that a name means.

Plugins are modules announced under the entry-point group ``elbowroom``, built-in ones included. A
plugin that fails is recorded with its cause and affects no other. A name that two distributions
supply must be written as ``distribution/name``.

    ELBOWROOM_STRICT=1       a plugin that fails is an error
    ELBOWROOM_PLUGINS=a,b    load only these plugins
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import TypeVar

import attrs
import pluggy

from ..errors import ConfigError, PluginError, did_you_mean
from .component import Component, Owner
from .discovery import allowed, announcements, normalised
from .hooks import Hooks
from .kinds import KINDS
from .plugin import Failure, Plugin, load_plugins
from .reference import find_reference, is_reference

__all__ = [
    "KINDS",
    "Component",
    "Failure",
    "Owner",
    "Plugin",
    "Registry",
    "installed",
    "reset_registry",
]


OURS = "elbowroom"  # this distribution

_T = TypeVar("_T")


class Registry:
    """The loaded plugins and their components by kind and name."""

    def __init__(
        self,
        plugins: Iterable[Plugin],
        manager: pluggy.PluginManager,
        left_out: Iterable[str] = (),
    ) -> None:
        self.plugins = tuple(plugins)
        self.left_out = tuple(left_out)  # plugins excluded by ELBOWROOM_PLUGINS
        self.hook = manager.hook  # observers are called through it
        self._components: dict[str, dict[str, list[Component]]] = {
            kind: defaultdict(list) for kind in KINDS
        }
        self._presets: dict[str, list[tuple[Owner, str]]] = defaultdict(list)
        for plugin in self.plugins:
            for component in plugin.components:
                self._components[component.kind][component.name].append(component)
            for name, location in plugin.presets.items():
                self._presets[name].append((plugin.owner, location))

    @classmethod
    def load(
        cls,
        entry_points: Iterable[metadata.EntryPoint] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Registry:
        """Load the plugins that ``entry_points`` announce (default: those installed)."""
        environ = os.environ if environ is None else environ
        strict = _is_strict(environ)
        manager = pluggy.PluginManager("elbowroom")
        manager.add_hookspecs(Hooks)
        announced = announcements(entry_points)
        admitted = allowed(announced, environ)
        plugins = load_plugins(admitted, manager, strict)
        return cls(plugins, manager, [one.name for one in announced if one not in admitted])

    @property
    def broken(self) -> tuple[Plugin, ...]:
        """The plugins that could not be loaded."""
        return tuple(plugin for plugin in self.plugins if plugin.error is not None)

    def components(self, kind: str) -> dict[str, Component]:
        """Every component of a kind by name, sorted.

        The name is ``distribution/name`` if several distributions supply it; built-in commands keep
        their names.
        """
        table = self._components[_known(kind)]
        owned = {name: [(c.owner, c) for c in found] for name, found in table.items()}
        return _by_name(owned, ours=not KINDS[kind].is_class)

    def presets(self) -> dict[str, tuple[Owner, str]]:
        """Every preset by name: its supplier and ``"package:path/in/package.yaml"``."""
        table = self._presets
        return _by_name(
            {n: [(o, (o, place)) for o, place in found] for n, found in table.items()}, ours=True
        )

    def commands(self) -> dict[str, Component]:
        """Every command by name; a built-in one is never replaced."""
        return self.components("command")

    def find(
        self,
        kind: str,
        name: str,
        base: str | Path | None = None,
        *,
        recorded: Owner | None = None,
    ) -> Component:
        """Resolve a component by kind and name.

        A name, ``distribution/name``, or a reference to code, which is executed:
        ``./file.py:Class`` (resolved from the folder ``base``, default the working directory) or
        ``package.module:Class``. ``recorded`` is the supplier that a run recorded; a name resolves
        to that supplier's component only.
        """
        _known(kind)
        if not is_reference(name):
            return self._choose(kind, name, recorded)
        if known := self.registered(kind, name):
            return known
        folder = Path.cwd() if base is None else Path(base)
        return find_reference(kind, name, folder)

    def name_of(self, kind: str, cls: type) -> str | None:
        """The name of a class, None if no plugin supplies it."""
        reference = f"{cls.__module__}:{cls.__qualname__}"
        named = self.components(kind).items()
        return next((name for name, one in named if one.reference == reference), None)

    def registered(self, kind: str, reference: str) -> Component | None:
        """The component whose class a reference names, if a plugin supplies it."""
        for candidates in self._components[kind].values():
            for component in candidates:
                if component.reference == reference:
                    return attrs.evolve(component, name=reference)
        return None

    def _choose(self, kind: str, given: str, recorded: Owner | None) -> Component:
        distribution, _, name = given.rpartition("/")
        then = "" if recorded is None else recorded.distribution or ""
        if distribution and then and normalised(distribution) != normalised(then):
            raise PluginError(f"{_words(kind)} {given!r} was supplied by {recorded} when it ran")
        distribution = distribution or then
        candidates = self._components[kind].get(name, [])
        if distribution:
            chosen = [c for c in candidates if _distribution(c) == normalised(distribution)]
            if chosen:
                return chosen[0]
            raise PluginError(self._not_supplied(kind, name, distribution, recorded))
        if not candidates:
            raise PluginError(self._unknown(kind, name))
        if len(candidates) > 1:
            suppliers = " and ".join(str(c.owner) for c in candidates)
            ways = " or ".join(f"{c.owner.distribution}/{name}" for c in candidates)
            raise PluginError(
                f"{_words(kind)} {name!r} is supplied by {suppliers}: write {ways} to say which"
            )
        return candidates[0]

    # -- messages

    def _unknown(self, kind: str, name: str) -> str:
        names = sorted(self._components[kind])
        lines = [
            f"unknown {_words(kind)} {name!r}{did_you_mean(name, names)}; "
            f"known {KINDS[kind].plural}: {', '.join(names) or 'none'}"
        ]
        elsewhere = [
            _words(other) for other, by_name in self._components.items() if name in by_name
        ]
        if elsewhere:
            lines.append(f"{name!r} is the name of a {' and of a '.join(elsewhere)}")
        return "\n".join([*lines, *self._suspects(self.plugins)])

    def _not_supplied(self, kind: str, name: str, distribution: str, recorded: Owner | None) -> str:
        who = normalised(distribution)
        theirs = [plugin for plugin in self.plugins if normalised(plugin.distribution) == who]
        if theirs:
            table = self._components[kind]
            names = sorted(n for n, found in table.items() if who in map(_distribution, found))
            message = (
                f"{theirs[0].distribution} {theirs[0].version} supplies no {_words(kind)} {name!r}"
                f"{did_you_mean(name, names)}; "
                f"its {KINDS[kind].plural}: {', '.join(names) or 'none'}"
            )
        else:
            present = sorted({plugin.distribution for plugin in self.plugins})
            message = (
                f"{_words(kind)} {name!r} of {distribution}: no plugin of that distribution is "
                f"loaded{did_you_mean(distribution, present)}; "
                f"there are plugins of: {', '.join(present) or 'none'}"
            )
        lines = [message]
        if recorded is not None and recorded.distribution is not None:
            lines.append(
                f"the run used {recorded.distribution} {recorded.version}: "
                f"pip install '{recorded.distribution}=={recorded.version}'"
            )
        return "\n".join([*lines, *self._suspects(theirs)])

    def _suspects(self, plugins: Iterable[Plugin]) -> Iterator[str]:
        """Broken plugins and plugins with notes, which may be the reason for a missing name."""
        plugins = list(plugins)
        broken = [plugin for plugin in plugins if plugin.error is not None]
        if broken:
            yield "what these broken plugins supply is not known:"
            yield from (f"  {plugin}: {plugin.error}" for plugin in broken)
        for plugin in plugins:
            yield from (f"note on {plugin}: {note}" for note in plugin.notes)
        if self.left_out:
            yield f"ELBOWROOM_PLUGINS leaves out: {', '.join(self.left_out)}"


# -- helpers


def _by_name(table: Mapping[str, list[tuple[Owner, _T]]], *, ours: bool = False) -> dict[str, _T]:
    """Names, qualified if several supply one; with ``ours``, elbowroom's keeps its name."""
    named = {}
    for name, suppliers in table.items():
        for owner, supplied in suppliers:
            alone = len(suppliers) == 1 or (ours and owner.distribution == OURS)
            named[name if alone else f"{owner.distribution}/{name}"] = supplied
    return dict(sorted(named.items()))


def _distribution(component: Component) -> str:
    return normalised(component.owner.distribution or "")


def _known(kind: str) -> str:
    if kind not in KINDS:
        raise PluginError(
            f"unknown kind {kind!r}{did_you_mean(kind, KINDS)}; kinds: {', '.join(KINDS)}"
        )
    return kind


def _is_strict(environ: Mapping[str, str]) -> bool:
    given = environ.get("ELBOWROOM_STRICT", "")
    meanings = {"": False, "0": False, "1": True}
    if given.strip() not in meanings:
        raise ConfigError(f"ELBOWROOM_STRICT is {given!r}; it must be 0 or 1")
    return meanings[given.strip()]


def _words(name: str) -> str:
    return name.replace("_", " ")


# -- the process-wide registry

_lock = threading.RLock()
_loaded: Registry | None = None
_loading = False


def installed() -> Registry:
    """The registry of installed plugins, loaded on first use and cached.

    Example:
        >>> installed().components("sampler").keys()
    """
    global _loaded, _loading  # noqa: PLW0603  # a cache; the only state of this module
    with _lock:
        if _loaded is None:
            if _loading:
                raise PluginError("a plugin asked for the registry while plugins are being loaded")
            _loading = True
            try:
                _loaded = Registry.load()
            finally:
                _loading = False
        return _loaded


def reset_registry() -> None:
    """Drop the cached registry, for tests."""
    global _loaded  # noqa: PLW0603  # the cache above
    with _lock:
        _loaded = None

"""Discovery: what the installed distributions announce under the entry-point group ``elbowroom``.

Entry points are read with ``importlib.metadata``. Two records of one distribution (an editable
install beside stale metadata, say) are one distribution: the first on the import path counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from importlib import metadata
from typing import Any

import attrs

from ..errors import ConfigError, did_you_mean

GROUP = "elbowroom"
UNKNOWN = "unknown"  # distribution or version missing in the metadata


@attrs.frozen
class Announcement:
    """One entry point: a plugin's name, where it is, and who announces it."""

    name: str
    distribution: str
    version: str
    entry_point: metadata.EntryPoint | None  # None: the distribution's metadata is unreadable
    unreadable: str = ""  # why

    @property
    def module(self) -> str:
        return self.entry_point.value if self.entry_point is not None else ""

    def load(self) -> Any:
        """The plugin, imported; whatever goes wrong is raised as it is."""
        if self.entry_point is None:
            raise ValueError(self.unreadable)
        return self.entry_point.load()


@cache
def normalised(distribution: str) -> str:
    """A distribution's name as package indexes compare it: My_Dist is my-dist."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def announcements(entry_points: Iterable[metadata.EntryPoint] | None) -> list[Announcement]:
    """Every plugin announced, each once, in a fixed order; default: by what is installed."""
    found = _installed() if entry_points is None else _announced(entry_points)
    first: dict[tuple[str, str, str], Announcement] = {}
    for one in found:
        # Nothing says that two plugins without a distribution come from the same one.
        apart = one.module if one.distribution == UNKNOWN else ""
        first.setdefault((normalised(one.distribution), one.name, apart), one)
    return [first[key] for key in sorted(first)]


def allowed(found: list[Announcement], environ: Mapping[str, str]) -> list[Announcement]:
    """Those that ``ELBOWROOM_PLUGINS=a,b`` admits: plugins, distributions or ``dist/plugin``."""
    wanted = [word.strip() for word in environ.get("ELBOWROOM_PLUGINS", "").split(",")]
    wanted = [word for word in wanted if word]
    if not wanted:
        return found
    admitted: set[int] = set()
    for word in wanted:
        matches = [i for i, one in enumerate(found) if word in _handles(one)]
        if not matches:
            names = sorted({one.name for one in found})
            distributions = sorted({one.distribution for one in found})
            raise ConfigError(
                f"ELBOWROOM_PLUGINS names {word!r}, which is not installed"
                f"{did_you_mean(word, [*names, *distributions])}; plugins: "
                f"{', '.join(names) or 'none'}; distributions: {', '.join(distributions) or 'none'}"
            )
        admitted.update(matches)
    return [one for i, one in enumerate(found) if i in admitted]


def _handles(one: Announcement) -> set[str]:
    whole = normalised(one.distribution)
    return {
        one.name,
        one.distribution,
        whole,
        f"{one.distribution}/{one.name}",
        f"{whole}/{one.name}",
    }


def _installed() -> Iterator[Announcement]:
    try:
        entry_points = metadata.entry_points(group=GROUP)
    except Exception:  # a broken file of one distribution stops the whole scan
        yield from _one_by_one()
    else:
        yield from _announced(entry_points)


def _one_by_one() -> Iterator[Announcement]:
    seen: set[str] = set()
    for distribution in metadata.distributions():
        name, version = _identity(distribution)
        if normalised(name) in seen:
            continue
        seen.add(normalised(name))
        try:
            for entry_point in distribution.entry_points:
                if entry_point.group == GROUP:
                    yield Announcement(entry_point.name, name, version, entry_point)
        except Exception as error:
            if f"[{GROUP}]" in (distribution.read_text("entry_points.txt") or ""):
                why = f"its entry_points.txt cannot be read: {type(error).__name__}: {error}"
                yield Announcement(name, name, version, None, why)


def _announced(entry_points: Iterable[metadata.EntryPoint]) -> Iterator[Announcement]:
    identity = lru_cache(None)(_identity)  # one distribution may announce many
    for entry_point in entry_points:
        name, version = identity(getattr(entry_point, "dist", None))
        yield Announcement(entry_point.name, name, version, entry_point)


def _identity(distribution: metadata.Distribution | None) -> tuple[str, str]:
    """(name, version) of the metadata."""
    try:
        found = None if distribution is None else distribution.metadata
        name, version = ("", "") if found is None else (found["Name"], found["Version"])
    except Exception:  # missing or unreadable metadata: the plugin may still work
        return UNKNOWN, UNKNOWN
    return name or UNKNOWN, version or UNKNOWN

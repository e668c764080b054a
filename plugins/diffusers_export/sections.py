"""What an exported folder knows of elbowroom: sections of a config, their suppliers, the data.

Sections are plain data, every default filled in. A component comes from the distribution that
supplied it, or not at all; code in a file cannot leave the machine it is on, so a component named
as ``file.py:Class`` is refused, when it is written and when it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from elbowroom.component import Owner
from elbowroom.config import Config, load_config
from elbowroom.dataset import DataSpec
from elbowroom.discovery import normalised
from elbowroom.errors import ElbowroomError, PluginError
from elbowroom.process import Process
from elbowroom.registry import registry

Sections = Mapping[str, Any]


def checked(sections: Sections) -> Sections:
    """``sections``, if nothing in them is a file of this machine."""
    for place, name in _names(sections, ""):
        if name.partition(":")[0].endswith(".py"):
            raise ElbowroomError(
                f"{place}: {name} is a file, which cannot be shared by its name: put the class "
                "into a package (elbowroom new-plugin) and name it by that"
            )
    return sections


def _names(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Every component's name, with its place."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            below = f"{place}.{key}" if place else str(key)
            if key == "name" and isinstance(inner, str):
                yield place, inner
            yield from _names(inner, below)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _names(inner, place)


def read_sections(sections: Sections, owners: Mapping[str, Mapping[str, str]]) -> Config:
    """The config of these sections, from those who supplied them."""
    suppliers = {path: Owner.of_record(owner) for path, owner in owners.items()}
    try:
        return load_config(_qualified(checked(sections), suppliers, ""))
    except ElbowroomError as error:
        here = {normalised(plugin.distribution) for plugin in registry().plugins}
        missing = {
            f"{owner.distribution}=={owner.version}": None
            for owner in suppliers.values()
            if owner.plugin and normalised(owner.distribution or "") not in here
        }
        if not missing:
            raise
        wanted = " ".join(f"'{one}'" for one in missing)
        raise PluginError(f"{error}\nthis model needs: pip install {wanted}") from error


def _qualified(value: Any, suppliers: Mapping[str, Owner], place: str) -> Any:
    """The same with ``distribution/name``: another plugin of that name does not step in."""
    if isinstance(value, list | tuple):
        return [_qualified(item, suppliers, f"{place}[{i}]") for i, item in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    known = {
        key: _qualified(item, suppliers, f"{place}.{key}" if place else str(key))
        for key, item in value.items()
    }
    name, owner = known.get("name"), suppliers.get(place)
    if owner is not None and isinstance(name, str) and not {":", "/"} & set(name):
        known["name"] = f"{owner.distribution}/{name}"
    return known


def bound_process(config: Config, data: Mapping[str, Any]) -> Process:
    """The process, for data of this form."""
    spec = DataSpec(tuple(data["shape"]), data["levels"], data["classes"])
    process: Process = config.process.build()
    return process.bind(spec)

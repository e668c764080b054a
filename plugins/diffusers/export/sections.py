"""The config in an exported folder: sections, their suppliers, the data's spec.

Sections are plain data with every default. A component is loaded only from the distribution that
supplied it. Code that a folder names is refused unless ``trust=True`` (elbowroom.registry.trust).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from elbowroom import Config, DataSpec, ElbowroomError, PluginError, Process, installed, load_config
from elbowroom.registry import Origin, Owner, normalised, trusting

Sections = Mapping[str, Any]


@contextmanager
def reading(trust: bool) -> Iterator[None]:
    """Turn errors while loading a folder into one sentence."""
    try:
        with trusting(trust):
            yield
    except ElbowroomError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise ElbowroomError(
            f"this export cannot be loaded: {type(error).__name__}: {reason}"
        ) from error


def read_sections(sections: Sections, owners: Mapping[str, Mapping[str, str]]) -> Config:
    """The config of these sections, with components from their suppliers."""
    if not isinstance(sections, Mapping):  # a string would be a file name
        raise ElbowroomError("this export cannot be loaded: its sections are not a mapping")
    suppliers = {path: Owner.of_record(owner) for path, owner in owners.items()}
    origin = Origin("export", suppliers)
    try:
        return load_config(sections, origin=origin)
    except ElbowroomError as error:
        here = {normalised(plugin.distribution) for plugin in installed().plugins}
        missing = {
            f"{owner.distribution}=={owner.version}": None
            for owner in suppliers.values()
            if owner.plugin and normalised(owner.distribution or "") not in here
        }
        if not missing:
            raise
        wanted = " ".join(f"'{one}'" for one in missing)
        raise PluginError(f"{error}\nthis model needs: pip install {wanted}") from error


def bound_process(config: Config, data: Mapping[str, Any]) -> Process:
    """The process bound to data of this spec."""
    process: Process = config.process.build()
    return process.bind(DataSpec.recorded(data))

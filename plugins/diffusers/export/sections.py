"""What an exported folder knows of elbowroom: sections of a config, their suppliers, the data.

Sections are plain data, every default filled in. A component comes from the distribution that
supplied it, or not at all. A folder is data, perhaps a stranger's: code in a file is refused, when
it is written and when it is read, and ``package.module:Class`` of no plugin needs ``trust=True``
where it was not trained with (elbowroom.registry.trust). What is judged is the config as it was
parsed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from elbowroom import (
    Config,
    DataSpec,
    ElbowroomError,
    Origin,
    Owner,
    PluginError,
    Process,
    installed,
    load_config,
    normalised,
)

Sections = Mapping[str, Any]

_trusted: ContextVar[bool] = ContextVar("trusted", default=False)


@contextmanager
def trusting(trust: bool = True) -> Iterator[None]:
    """Inside, modules that a folder names are trusted, as ``trust`` says."""
    before = _trusted.set(trust)
    try:
        yield
    finally:
        _trusted.reset(before)


def read_sections(sections: Sections, owners: Mapping[str, Mapping[str, str]]) -> Config:
    """The config of these sections, from those who supplied them."""
    suppliers = {path: Owner.of_record(owner) for path, owner in owners.items()}
    origin = Origin("export", owners=suppliers, trusted=_trusted.get(), files=False)
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
    """The process, for data of this form."""
    process: Process = config.process.build()
    return process.bind(DataSpec.recorded(data))

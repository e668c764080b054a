"""Paths: how the times of the positions follow the common time."""

from __future__ import annotations

from elbowroom import hookimpl

_HERE = "elbowroom.plugins.paths"


@hookimpl
def paths() -> dict[str, str]:
    """One clock, given positions, blocks in order, an interval per part, independent times."""
    return {
        "shared": "elbowroom.contracts.path:Shared",
        "given": f"{_HERE}.given:GivenPath",
        "blocks": f"{_HERE}.blocks:Blocks",
        "columns": f"{_HERE}.columns:Columns",
        "independent": f"{_HERE}.independent:Independent",
    }

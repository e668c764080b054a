"""Samplers that follow a process's own reverse steps."""

from __future__ import annotations

from elbowroom import hookimpl

_HERE = "elbowroom.plugins.samplers"


@hookimpl
def samplers() -> dict[str, str]:
    """``ancestral`` serves every process."""
    return {"ancestral": f"{_HERE}.ancestral:Ancestral"}

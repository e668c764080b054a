"""Sampling: drawing samples, images of them, and writing them to disk."""

from __future__ import annotations

from elbowroom import hookimpl


@hookimpl
def commands() -> dict[str, str]:
    """The command ``sample``."""
    return {"sample": "elbowroom.plugins.sampling.command:sample"}

"""Masked (absorbing) discrete diffusion."""

from __future__ import annotations

from elbowroom import hookimpl


@hookimpl
def processes() -> dict[str, str]:
    """``masked``."""
    return {"masked": "elbowroom.plugins.masked.process:Masked"}

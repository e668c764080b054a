"""Gaussian diffusion, with the usual parametrisations."""

from __future__ import annotations

from elbowroom import hookimpl


@hookimpl
def processes() -> dict[str, str]:
    """``gaussian``."""
    return {"gaussian": "elbowroom.plugins.gaussian.process:Gaussian"}

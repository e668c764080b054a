"""The hooks of this plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elbowroom import hookimpl

if TYPE_CHECKING:
    from elbowroom import Diffusion


@hookimpl
def assembled(model: Diffusion) -> None:
    """Check a network that is not a ``Denoiser``."""
    from .component_checks import check_own_network

    check_own_network(model)

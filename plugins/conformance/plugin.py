"""The hooks of this plugin; its package holds the checks that authors import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elbowroom import hookimpl

if TYPE_CHECKING:
    from elbowroom import Diffusion


@hookimpl
def assembled(model: Diffusion) -> None:
    """Check a network that is no ``Denoiser`` before it is used."""
    from .component_checks import check_own_network

    check_own_network(model)

"""What the diffusers library brings: its U-Net (`unet`)."""

from __future__ import annotations

from elbowroom import Components, hookimpl


@hookimpl
def denoisers() -> Components:
    """The customary network of Gaussian diffusion."""
    return {"unet": "elbowroom.plugins.diffusers.unet:UNet"}

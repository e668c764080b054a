"""What the diffusers library brings: its U-Net, its schedulers as samplers, and export to it."""

from __future__ import annotations

from elbowroom import hookimpl

_HERE = "elbowroom.plugins.diffusers"


@hookimpl
def denoisers() -> dict[str, str]:
    """The customary network of Gaussian diffusion."""
    return {"unet": f"{_HERE}.unet:UNet"}


@hookimpl
def samplers() -> dict[str, str]:
    """Any of its schedulers for Gaussian noise, by class name."""
    return {"diffusers": f"{_HERE}.sampler:DiffusersSampler"}


@hookimpl
def grids() -> dict[str, str]:
    """Where a scheduler places its levels itself."""
    return {"scheduler": f"{_HERE}.grid:SchedulersOwn"}


@hookimpl
def exporters() -> dict[str, str]:
    """``diffusers``: a folder that ``from_pretrained`` loads."""
    return {"diffusers": f"{_HERE}.export.exporter:DiffusersExporter"}

"""Integration with diffusers: its U-Net, its schedulers as samplers, and export to it."""

from __future__ import annotations

from elbowroom import hookimpl

_HERE = "elbowroom.plugins.diffusers"


@hookimpl
def denoisers() -> dict[str, str]:
    """diffusers' ``UNet2DModel``."""
    return {"unet": f"{_HERE}.unet:UNet"}


@hookimpl
def samplers() -> dict[str, str]:
    """Any scheduler for Gaussian noise, by class name."""
    return {"diffusers": f"{_HERE}.sampler:DiffusersSampler"}


@hookimpl
def grids() -> dict[str, str]:
    """The levels a scheduler chooses itself."""
    return {"scheduler": f"{_HERE}.grid:SchedulerGrid"}


@hookimpl
def exporters() -> dict[str, str]:
    """A folder that ``from_pretrained`` loads."""
    return {"diffusers": f"{_HERE}.export.exporter:DiffusersExporter"}

"""The schedulers of the diffusers library as samplers."""

from __future__ import annotations

from elbowroom import hookimpl


@hookimpl
def samplers() -> dict[str, str]:
    """``diffusers``: any of its schedulers for Gaussian noise, by class name."""
    return {"diffusers": "elbowroom.plugins.diffusers_sampler.sampler:DiffusersSampler"}

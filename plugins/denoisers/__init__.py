"""The paper's denoiser (`uvit`) and its transformer alone (`dit`)."""

from __future__ import annotations

from elbowroom import Components, hookimpl


@hookimpl
def denoisers() -> Components:
    """Networks for images (both) and sequences (`dit`)."""
    return {
        "uvit": "elbowroom.plugins.denoisers.uvit:UViT",
        "dit": "elbowroom.plugins.denoisers.dit:DiT",
    }

"""Stratified times of a piecewise constant density."""

from __future__ import annotations

import torch
from elbowroom import Noise, stratified
from torch import Tensor


def draw_piecewise(noise: Noise, density: Tensor) -> tuple[Tensor, Tensor]:
    """Draw (t, p(t)), each [B], from a density [bins] of mean 1 over equal bins of [0, 1]."""
    bins, density = len(density), density.to(noise.device)
    edges = torch.nn.functional.pad(density.cumsum(0) / bins, (1, 0))  # [bins + 1]
    u = stratified(noise) * edges[-1]
    bin_ = (torch.searchsorted(edges, u, right=True) - 1).clamp(0, bins - 1)
    within = (u - edges[bin_]) * bins / density[bin_]
    return (bin_ + within.clamp(0, 1)) / bins, density[bin_]

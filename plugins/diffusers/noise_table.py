"""The betas of a diffusers scheduler, one for each level."""

from __future__ import annotations

import torch
from torch import Tensor

HIGHEST = 14.0
"""The lambda beyond which 1 - alphas_cumprod underflows in float32."""


def betas(log_snr: Tensor) -> list[float]:
    """The betas whose alphas_cumprod are sigmoid(lambda), lambda [N] from data to noise."""
    found, reached = [], 1.0
    for share in log_snr.double().sigmoid().tolist():
        beta = torch.tensor(1 - share / reached, dtype=torch.float32).clamp(0, 0.999999)
        reached *= float(1 - beta)
        found.append(float(beta))
    return found

"""Laws of a guidance."""

from __future__ import annotations

import torch
from elbowroom import Guidance
from torch import Tensor, nn

from .law import close, ensure, run

_CLASSES = 3


def check_guidance(guidance: Guidance) -> None:
    """Check the laws of a guidance, on a small network with a null label."""
    run(guidance, [_shape, _separate], guidance)


class _Labelled(nn.Module):
    """z plus a term by label; the last row is the null label."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.tensor([0.5, -1.0, 2.0, 0.25], dtype=torch.float64))

    def forward(self, z: Tensor, log_snr: Tensor | None, cond: Tensor | None) -> Tensor:
        assert log_snr is not None
        assert cond is not None
        return z * log_snr.sigmoid()[:, None] + self.rows[cond][:, None]


def _output(guidance: Guidance, part: slice = slice(None)) -> Tensor:
    z = torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(6, 4)
    log_snr, cond = torch.linspace(-3, 3, 6).double(), torch.arange(6) % _CLASSES
    with torch.no_grad():
        out: Tensor = guidance(_Labelled(), _CLASSES)(z[part], log_snr[part], cond[part])
    return out


def _shape(guidance: Guidance) -> None:
    """The guided network has outputs of the same shape, with finite values."""
    out = _output(guidance)
    ensure(out.shape == (6, 4), f"it has outputs of shape {tuple(out.shape)}, not (6, 4).")
    ensure(out.isfinite(), "it has outputs that are not finite.")


def _separate(guidance: Guidance) -> None:
    """The output for a sample does not depend on the others of the batch."""
    parts = torch.cat([_output(guidance, slice(0, 2)), _output(guidance, slice(2, 6))])
    close(parts, _output(guidance), "the output in two parts", relative=1e-12)

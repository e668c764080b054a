"""Laws of a guidance."""

from __future__ import annotations

import torch
from elbowroom import Guidance
from torch import Tensor, nn

from .law import close, ensure, run

_CLASSES = 3


def check_guidance(guidance: Guidance) -> None:
    """Every law of a guidance, on a small network that knows 'no label'."""
    run(guidance, [_keeps_form, _row_by_row], guidance)


class _Labelled(nn.Module):
    """z plus what its label adds; the last row is 'no label'."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.tensor([0.5, -1.0, 2.0, 0.25], dtype=torch.float64))

    def forward(self, z: Tensor, log_snr: Tensor | None, cond: Tensor | None) -> Tensor:
        assert log_snr is not None
        assert cond is not None
        return z * log_snr.sigmoid()[:, None] + self.rows[cond][:, None]


def _asked(guidance: Guidance, part: slice = slice(None)) -> Tensor:
    z = torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(6, 4)
    log_snr, cond = torch.linspace(-3, 3, 6).double(), torch.arange(6) % _CLASSES
    with torch.no_grad():
        said: Tensor = guidance(_Labelled(), _CLASSES)(z[part], log_snr[part], cond[part])
    return said


def _keeps_form(guidance: Guidance) -> None:
    """The guided network answers in the same form, with finite numbers."""
    said = _asked(guidance)
    ensure(said.shape == (6, 4), f"it answers in the shape {tuple(said.shape)}, not (6, 4).")
    ensure(said.isfinite(), "it answers with numbers that are not finite.")


def _row_by_row(guidance: Guidance) -> None:
    """What it says of a sample does not depend on the others of the batch."""
    parts = torch.cat([_asked(guidance, slice(0, 2)), _asked(guidance, slice(2, 6))])
    close(parts, _asked(guidance), "the answer in two parts", relative=1e-12)

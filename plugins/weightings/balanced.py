"""Balanced: equal loss at every time, as far as the weighting is a bound.

    w(t) proportional to 1 / (elbo_weight(t) E[plain | t]), projected onto the bounds

The ELBO's loss is exponentially averaged in bins of time during training. The non-decreasing
function nearest to the bins' 1/loss, in least squares, is

    w_i = max over j <= i of min over k >= i of mean(1/loss_j .. 1/loss_k)

(isotonic regression without a loop), interpolated linearly: always a bound. The weighting changes
during training, so its certificate is logged.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from elbowroom import Adaptive, Level, Losses, Weighting
from elbowroom.contracts import sums_by_time
from torch import Tensor, nn

_ENOUGH = 8.0  # draws before a bin is used


class Balanced(nn.Module, Weighting, Adaptive):
    """A weighting that balances the loss over time and is a bound."""

    sums: Tensor  # [bins, 2] counts and sums of the ELBO's loss, float64
    w: Tensor  # [bins] non-decreasing, of mean 1, float64

    def __init__(self, *, bins: int = 32, memory: int = 300) -> None:
        super().__init__()
        if bins < 2 or memory < 1:
            raise ValueError("bins are at least 2, memory is at least 1")
        self.memory = memory
        self.register_buffer("sums", torch.zeros(bins, 2, dtype=torch.float64))
        self.register_buffer("w", torch.ones(bins, dtype=torch.float64))

    def __call__(self, level: Level) -> Tensor:
        t, bins = level.t.double(), len(self.w)
        place = (t * bins - 0.5).clamp(0, bins - 1)  # values at the centres of the bins
        below = place.nan_to_num().long().clamp(0, bins - 2)
        values = self.w.to(t.device)
        low, high = values[below], values[below + 1]
        w = torch.minimum(low + (high - low) * (place - below), high)
        return torch.where(t.isnan(), t, w).to(level.t.dtype)

    def statistics(self, losses: Losses) -> Tensor:
        return sums_by_time(losses.time, len(self.w), losses.elbo.double() * losses.density)

    def adapt(self, found: Tensor) -> None:
        self.sums.mul_(1 - 1 / self.memory).add_(found)
        count, total = self.sums.unbind(1)
        known = (count >= _ENOUGH) & (total > 0)
        inverse = torch.where(known, count / torch.where(known, total, 1.0), 0.0)
        mean = inverse.sum() / known.sum().clamp(min=1)
        inverse = torch.where(known, inverse, mean)
        w = rising(torch.where(inverse.sum() > 0, inverse, torch.ones_like(inverse)))
        self.w.copy_(w / w.mean())

    def curves(self) -> Mapping[str, tuple[Tensor, Tensor]]:
        bins = len(self.w)
        return {"weighting": ((torch.arange(bins) + 0.5) / bins, self.w.cpu())}

    def extra_repr(self) -> str:
        return f"bins={len(self.w)}, memory={self.memory}"


def rising(values: Tensor) -> Tensor:
    """[n] the non-decreasing sequence nearest to ``values``, by the max-min formula."""
    n = len(values)
    sums = torch.nn.functional.pad(values.cumsum(0), (1, 0))
    first, last = (
        torch.arange(n, device=values.device)[:, None],
        torch.arange(n, device=values.device),
    )
    mean = (sums[1:] - sums[:-1, None]) / (last - first + 1).clamp(min=1)  # [j, k] over j .. k
    least = torch.where(last >= first, mean, torch.inf).flip(1).cummin(1).values.flip(1)
    best = torch.where(last >= first, least, -torch.inf).cummax(0).values
    return best.diagonal().cummax(0).values  # rounding may break the order

"""A weighting in words: what it does at both ends, and where its weight lies.

No law can tell a weighting that was meant for the plain loss from one that was meant for the ELBO:
1 / (k + SNR) is as good a w as any. So it is said in words what the objective will do,

    w ~ SNR^p  where data is nearly clean, and where it is nearly noise,
    the weight on the plain loss, w * elbo_weight ~ SNR^q, beside it,

p being the slope of log w over lambda, and at which lambda half of the weight on the plain loss
lies. Whoever forgot to divide by the ELBO's weight reads it there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs
import torch
from elbowroom import Level
from torch import Tensor

if TYPE_CHECKING:
    from elbowroom import Process, Schedule, Weighting

_ENDS = {"high": (0.70, 0.95), "low": (0.05, 0.30)}
"""Parts of the schedule's range of lambda: near the ends, short of what is clamped there."""

_SPAN = (1 - 1e-4, 1e-4)  # the ends themselves may be infinite
_POINTS = 64
_SAME = 0.1  # slopes nearer than this are one
HINT = (
    "w multiplies the ELBO's own weight: divide a weight that was meant for the plain loss "
    "(P2, Min-SNR) by level.elbo_weight"
)


@attrs.frozen
class Trend:
    """How a positive function of the SNR goes: as SNR^first, then as SNR^second."""

    first: float  # the slope of its logarithm in the half nearer the middle
    second: float  # and in the half nearer the end

    @classmethod
    def of(cls, values: Tensor, lam: Tensor) -> Trend:
        """From ``values`` [N] at ``lam`` [N], which goes from the middle to the end."""
        log, half = values.double().log(), len(lam) // 2
        slopes = ((log[half] - log[0]) / (lam[half] - lam[0]),
                  (log[-1] - log[half]) / (lam[-1] - lam[half]))  # fmt: skip
        return cls(float(slopes[0]), float(slopes[1]))

    def __str__(self) -> str:
        if not math.isfinite(self.first + self.second):
            return "is zero or infinite"
        if abs(self.first - self.second) > _SAME + 0.1 * abs(self.second):
            return f"goes as {_power(self.first)}, further out as {_power(self.second)}"
        if abs(self.second) < _SAME:
            return "is constant"
        return f"goes as {_power(self.second)}"


def _power(slope: float) -> str:
    rounded = round(slope, 1)
    return "a constant" if not rounded else "SNR" if rounded == 1 else f"SNR^{rounded:g}"


def describe_weighting(weighting: Weighting, schedule: Schedule, process: Process) -> list[str]:
    """Sentences about ``weighting`` under a schedule and a process."""
    ready = weighting.prepare(schedule, process)
    low, high = schedule.log_snr(torch.tensor(_SPAN, dtype=torch.float64)).tolist()
    said = []
    for end, (first, last) in _ENDS.items():
        near, far = (first, last) if end == "high" else (last, first)
        part = torch.linspace(near, far, _POINTS, dtype=torch.float64)
        lam = low + (high - low) * part
        with torch.no_grad():
            level = Level.of(schedule.time(lam), schedule, process)
            w, plain = ready(level).expand_as(lam), ready.plain_weight(level).expand_as(lam)
        said.append(
            f"at {end} SNR (λ from {lam.min():.3g} to {lam.max():.3g}) w̃ {Trend.of(w, lam)}, and "
            f"the weight on the plain loss {Trend.of(plain, lam)}"
        )
    return [*said, _half(ready, schedule, process)]


def _half(ready: Weighting, schedule: Schedule, process: Process) -> str:
    """Where the middle half of the weight on the plain loss lies."""
    t = (torch.arange(2000, dtype=torch.float64) + 0.5) / 2000
    with torch.no_grad():
        level = Level.of(t, schedule, process)
        mass = ready.plain_weight(level).expand_as(t).abs().cumsum(0)
    if not bool(mass[-1] > 0) or not bool(mass[-1].isfinite()):
        return "the weight on the plain loss is nowhere, or not finite"
    edges = torch.searchsorted(mass, mass[-1] * torch.tensor([0.25, 0.75], dtype=torch.float64))
    clean, noisy = level.log_snr[edges].tolist()
    return f"half of the weight on the plain loss lies at λ from {noisy:.3g} to {clean:.3g}"

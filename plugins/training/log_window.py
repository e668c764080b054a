"""Sums over the steps since the last logging step, kept on the device without synchronising.

The ELBO and the loss are also summed by level. With elbo_b the summed per-example ELBO of n
examples in bin b of width d (lambda covers the schedule's range),

    elbo_by_level(lambda_b) = elbo_b / (n d dims log 2)

estimates the density over lambda of the ELBO's diffusion term, in bits per dimension. Its integral
plus the boundary terms (prior KL and reconstruction) is the logged ``bits_per_dim``. The boundary
terms depend on data, process and the schedule's ends only, so they are computed once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from elbowroom import Diffusion, Losses, Noise, Schedule, Split
from elbowroom.objective import boundary_terms
from elbowroom.randomness import random_subset
from elbowroom.runs import restore
from torch import Tensor

from .ranks import Ranks

BINS = 24
_WIDEST = 20.0  # |log-SNR| of the outermost bins: a schedule's ends may be infinite

_EXAMPLES, _ELEMENTS = 512, 2**17  # at most this many for the boundary terms
_BATCH = 16  # examples
_SEED, _STEP = 0, 2**31 - 3  # a noise key that nothing else uses


class LogWindow:
    """Sums over steps; saved in checkpoints, so that a resumed run logs the same values."""

    def __init__(self, schedule: Schedule, dims: int, ranks: Ranks, boundary: float | None) -> None:
        low, high = schedule.log_snr(torch.tensor([1.0, 0.0], dtype=torch.float64)).tolist()
        edges = torch.linspace(
            max(low, -_WIDEST), min(high, _WIDEST), BINS + 1, dtype=torch.float64
        )
        self.dims, self.ranks, self.boundary = dims, ranks, boundary  # boundary terms, bits/dim
        self.centres = (edges[1:] + edges[:-1]) / 2  # [BINS]
        self.width = float(edges[1] - edges[0])
        self._inner = edges[1:-1].to(ranks.device)
        self.clear()

    def clear(self) -> None:
        """Set all sums to zero."""
        zeros = torch.zeros
        double, device = torch.float64, self.ranks.device
        self.steps, self.examples = 0, 0
        self._scalars = zeros(2, dtype=double, device=device)  # loss, gradient norm
        self._by_level = zeros(BINS, 2, dtype=double, device=device)  # ELBO, weighted loss

    def add(self, losses: Losses, norm: Tensor) -> None:
        """Add one step."""
        self.steps += 1
        self.examples += len(losses.elbo)
        self._scalars += torch.stack((losses.loss.detach(), norm))
        lam = losses.log_snr if losses.log_snr.ndim == 1 else losses.log_snr.flatten(1).mean(1)
        both = torch.stack((losses.elbo, losses.per_example), dim=1).double()  # [B, 2]
        self._by_level.index_add_(0, torch.bucketize(lam.to(self._inner), self._inner), both)

    def measurements(self) -> tuple[dict[str, float], dict[str, tuple[Tensor, Tensor]]]:
        """Scalars and curves over all ranks. A collective call."""
        loss, norm = (self.ranks.mean(self._scalars) / max(self.steps, 1)).tolist()
        by_level = self.ranks.sum(self._by_level).cpu()
        by_level = by_level / (max(self.examples, 1) * self.ranks.world * self.dims * math.log(2))
        scalars = {"loss": loss, "gradient_norm": norm}
        if self.boundary is not None:  # the process has a likelihood
            scalars["bits_per_dim"] = float(by_level[:, 0].sum()) + self.boundary
        density = by_level / self.width
        return scalars, {
            "elbo_by_level": (self.centres, density[:, 0]),
            "loss_by_level": (self.centres, density[:, 1]),
        }

    def tensors(self) -> dict[str, Tensor]:
        """The sums over all ranks, for a checkpoint. A collective call."""
        return {
            "scalars": self.ranks.mean(self._scalars),
            "by_level": self.ranks.sum(self._by_level),
            "steps": torch.tensor(self.steps),
            "examples": torch.tensor(self.examples * self.ranks.world),
        }

    def restore(self, tensors: Mapping[str, Tensor], origin: str) -> None:
        """Continue from saved sums, possibly on another number of ranks."""
        steps, examples = torch.zeros((), dtype=torch.int64), torch.zeros((), dtype=torch.int64)
        sums = {"scalars": self._scalars, "by_level": self._by_level}
        restore({**sums, "steps": steps, "examples": examples}, tensors, origin)
        self._by_level /= self.ranks.world
        self.steps, self.examples = int(steps), int(examples) // self.ranks.world


@torch.no_grad()
def boundary(model: Diffusion, split: Split, device: torch.device) -> float:
    """Prior KL plus reconstruction in bits per dimension, averaged over some examples."""
    process, dims = model.process, model.process.data.dims
    rows = random_subset(min(_EXAMPLES, math.ceil(_ELEMENTS / dims)), len(split), _SEED)
    total = torch.zeros((), dtype=torch.float64, device=device)
    for part in rows.split(_BATCH):
        x = process.encode(split.take(part).x.to(device))
        noise = Noise(_SEED, part.to(device), len(split), _STEP)
        for term in boundary_terms(process, model.schedule, x, noise):
            total += term.double().sum()
    return float(total) / (len(rows) * dims * math.log(2))

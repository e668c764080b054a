"""The optimum of many examples, estimated from some of them.

The posterior of N examples, each as likely as the other, is a sum over all of them. Here n were
drawn, and z was made from one of these, x_i. Each other stands for c of the N - 1 that x_i is not:

    q(x_i | z) ~ q(z | x_i),     q(x_j | z) ~ c q(z | x_j),     c = (N - 1)/(n - 1),

so that the sums over all, or over all of one label, are right on average. If x_i were counted as
often as the others, its own share would be N/n times too large: that is the posterior of the n
alone, who lose less. (Xu et al., arXiv 2506.13763, estimate the optimum of squared errors from a
part of the examples too.)

What is left is an error e of the posterior p by the draw of the others. Any proper score has
E loss(p) = G(p), concave, and a prediction p + e

    loses               G(p) + e'He/2 + ...
    expects to lose     G(p) + G'e - e'He/2 + ...       (H = -G'')

so of half the sum of the two G'E[e]/2 is left, the bias of a ratio of sums: an estimate, of which
either sign occurs. Where hardly any of the others is near enough to count, a draw of few mostly
misses what they do, and it is too low.
"""

from __future__ import annotations

import attrs
import torch
from elbowroom import Level, Process
from torch import Tensor

from .optimum import Optimum


@attrs.frozen(eq=False)
class SampledOptimum:
    """The exact denoiser of N examples, as far as n of them tell."""

    drawn: Optimum
    total: int  # N

    def plain_loss(
        self, process: Process, x: Tensor, z: Tensor, level: Level, y: Tensor | None, own: Tensor
    ) -> Tensor:
        """[B, *D] of z made from the drawn examples ``own`` [B], encoded x [B, *D]."""
        optimum = attrs.evolve(self.drawn, probabilities=self._counts(own))
        posterior = optimum.posterior(process, z, level, y)
        lost = optimum.lost(process, posterior, x, z, level)
        return (lost.double() + optimum.expected(process, posterior, z, level)) / 2

    def _counts(self, own: Tensor) -> Tensor:
        """[B, n] how many examples each one drawn stands for."""
        n = len(self.drawn.states)
        mine = torch.arange(n, device=own.device) == own[:, None]
        return torch.where(mine, 1.0, (self.total - 1) / (n - 1)).double()

"""The optimum: the best any network can say, where data are a known table of states.

    q(x | z) ~ q(x) q(z | x),        and given a label the same over its states alone.

Of it a process asks for each token's marginal, or for the mean. The table is a distribution that is
known, or some of the training examples, each as likely as the other. With L*(q) the least expected
loss at a level when x ~ q, over all networks f,

    L*(q) = min over f of E_q loss(f)

is concave in q, as a minimum of linear functions. So for n independent examples with the empirical
distribution q_n, on average over them,

    E L*(q_n)  <=  E L*(q_n+1)  <=  L*(q):

the best loss on a set of examples is a lower bound of the best loss on all there could be, and the
fewer they are the lower it is. For squared errors L*(q_n) is the optimal loss of Xu et al. 2025
(arXiv 2506.13763): E|x|^2 - E|E[x | z]|^2 = E|x - E[x | z]|^2.
"""

from __future__ import annotations

from typing import Any

import attrs
import torch
from elbowroom import Batch, CategoricalPrediction, Level, Process, RealPrediction
from torch import Tensor
from torch.nn.functional import one_hot

_AT_ONCE = 2**22  # numbers


@attrs.frozen(eq=False)
class Optimum:
    """The exact denoiser of a table of states."""

    states: Tensor  # [S, *D] integers
    probabilities: Tensor  # [S] float64, up to a constant
    labels: Tensor | None = None  # [S]

    @classmethod
    def of_examples(cls, batch: Batch, device: torch.device | str) -> Optimum:
        """That of examples, each as likely as the other."""
        even = torch.ones(len(batch), dtype=torch.float64, device=device)
        return cls(batch.x.to(device), even, None if batch.y is None else batch.y.to(device))

    def predict(self, process: Process, z: Tensor, level: Level, y: Tensor | None) -> Any:
        """The best prediction at z [B, *D], for labels y [B]."""
        posterior = self.posterior(process, z, level, y)
        if "real" in process.traits:
            mean = posterior @ process.encode(self.states).flatten(1).double()
            return RealPrediction(z, level, given_x=mean.view(z.shape).to(z.dtype))
        values = process.signature().out_states
        assert values is not None, "a process over tokens asks for their probabilities"
        return CategoricalPrediction(self._marginals(posterior, values).log())

    def posterior(self, process: Process, z: Tensor, level: Level, y: Tensor | None) -> Tensor:
        """q(x | z), [B, S] float64, at levels that broadcast against z."""
        encoded = process.encode(self.states)
        seen = z.double() if z.is_floating_point() else z
        parts = encoded.to(seen.dtype).split(max(1, _AT_ONCE // z.numel()))
        likelihood = torch.cat([_log_likelihood(process, seen, x, level) for x in parts], 1)
        joint = self.probabilities.log() + likelihood
        if y is not None and self.labels is not None:
            joint = joint.masked_fill(y[:, None] != self.labels, -torch.inf)
        return joint.softmax(1)

    def _marginals(self, posterior: Tensor, values: int) -> Tensor:
        """[B, *D, V] the chance of each value of each token."""
        shape = torch.Size((*self.states.shape[1:], values))
        found = posterior.new_zeros(len(posterior), shape.numel())
        at_once = max(1, _AT_ONCE // shape.numel())
        for chance, states in zip(
            posterior.split(at_once, 1), self.states.split(at_once), strict=True
        ):
            found += chance @ one_hot(states.long(), values).flatten(1).double()
        return found.view(-1, *shape)


def _log_likelihood(process: Process, z: Tensor, x: Tensor, level: Level) -> Tensor:
    """log q(z | x) of every pair, [B, S] float64."""
    b, s = len(z), len(x)
    row = torch.arange(b, device=z.device).repeat_interleave(s)
    pairs = process.log_likelihood(z[row], x.repeat(b, *[1] * (x.ndim - 1)), level.select(row))
    return pairs.double().view(b, s)

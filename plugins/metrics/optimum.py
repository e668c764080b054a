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

from typing import Any, cast

import attrs
import torch
from elbowroom import (
    Absorbing,
    Batch,
    CategoricalPrediction,
    ElbowroomError,
    Level,
    Process,
    RealPrediction,
)
from torch import Tensor

_AT_ONCE = 2**22  # numbers
_MOST = 2**26  # numbers in the table of one example


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

    def plain_loss(
        self, process: Process, x: Tensor, z: Tensor, level: Level, y: Tensor | None
    ) -> Tensor:
        """[B, *D] what the best prediction at z loses, where data are x [B, *D], encoded."""
        return self.lost(process, self.posterior(process, z, level, y), x, z, level)

    def lost(
        self, process: Process, posterior: Tensor, x: Tensor, z: Tensor, level: Level
    ) -> Tensor:
        """[B, *D] what the prediction by a posterior [B, S] loses.

        Of a hidden token it is -log of the chance of its own value: no other value's is needed.
        """
        if "absorbing" in process.traits:
            hidden = z == cast("Absorbing", process).mask
            return -self._chance(process, posterior, x).log().where(hidden, 0.0)
        found = []
        for rows in torch.arange(len(z), device=z.device).split(_rows_at_once(process)):
            at = level.select(rows)
            best = self._best(process, posterior[rows], z[rows], at)
            found.append(process.plain_loss(x[rows], z[rows], best, at))
        return torch.cat(found)

    def expected(self, process: Process, posterior: Tensor, z: Tensor, level: Level) -> Tensor:
        """[B, *D] what the prediction by a posterior [B, S] loses if that posterior is right."""
        if "absorbing" in process.traits:
            hidden = z == cast("Absorbing", process).mask
            return self._entropy(process, posterior).where(hidden, 0.0)
        found = []
        for rows in torch.arange(len(z), device=z.device).split(_rows_at_once(process)):
            here, at = posterior[rows], level.select(rows)
            best = self._best(process, here, z[rows], at)
            found.append(
                self._expected_square(process, here, z[rows], best, at)
                if "real" in process.traits
                else self._expected_of_values(process, here, z[rows], best, at)
            )
        return torch.cat(found)

    def _entropy(self, process: Process, posterior: Tensor) -> Tensor:
        """[B, *D] of each token's value, by the values that some state has there."""
        tokens = process.encode(self.states).flatten(1)  # [S, N]
        parts = tokens.split(max(1, _AT_ONCE // len(tokens)), 1)
        found = torch.cat([_entropies(posterior, part) for part in parts], 1)
        return found.view(len(posterior), *self.states.shape[1:])

    def _expected_square(
        self, process: Process, posterior: Tensor, z: Tensor, best: Any, level: Level
    ) -> Tensor:
        """A squared error is the variance on average: what is lost one standard deviation off."""
        x = process.encode(self.states).flatten(1).double()
        mean = posterior @ x
        deviation = (posterior @ x.square() - mean.square()).clamp(min=0).sqrt()
        return process.plain_loss((mean + deviation).view(z.shape).to(z.dtype), z, best, level)

    def _expected_of_values(
        self, process: Process, posterior: Tensor, z: Tensor, best: Any, level: Level
    ) -> Tensor:
        """The sum over values of their chance times what is lost where they are true."""
        chances = self._marginals(posterior, _values(process))
        found = torch.zeros_like(chances[..., 0])
        for value, chance in enumerate(chances.unbind(-1)):
            lost = process.plain_loss(torch.full_like(z, value), z, best, level)
            found += (chance * lost).where(chance > 0, 0.0)
        return found

    def predict(self, process: Process, z: Tensor, level: Level, y: Tensor | None) -> Any:
        """The best prediction at z [B, *D], for labels y [B]."""
        return self._best(process, self.posterior(process, z, level, y), z, level)

    def _best(self, process: Process, posterior: Tensor, z: Tensor, level: Level) -> Any:
        if "real" in process.traits:
            mean = posterior @ process.encode(self.states).flatten(1).double()
            return RealPrediction(z, level, given_x=mean.view(z.shape).to(z.dtype))
        return CategoricalPrediction(self._marginals(posterior, _values(process)).log())

    def posterior(self, process: Process, z: Tensor, level: Level, y: Tensor | None) -> Tensor:
        """q(x | z), [B, S] float64, at levels that broadcast against z."""
        encoded = process.encode(self.states)
        likelihood = (
            _log_likelihood_real(z, encoded, level)
            if "real" in process.traits
            else _log_likelihood(process, z, encoded.to(z.dtype), level)
        )
        joint = self.probabilities.log() + likelihood
        if y is not None and self.labels is not None:
            joint = joint.masked_fill(y[:, None] != self.labels, -torch.inf)
        return joint.softmax(1)

    def _chance(self, process: Process, posterior: Tensor, x: Tensor) -> Tensor:
        """[B, *D] the chance of each token's value in x: the sum of posterior [state has it]."""
        states, asked = process.encode(self.states).flatten(1), x.flatten(1)
        found = posterior.new_zeros(asked.shape)
        for pairs in (posterior > 0).nonzero().split(max(1, _AT_ONCE // asked.shape[1])):
            row, state = pairs.unbind(1)
            each = posterior[row, state, None] * (states[state] == asked[row])
            found.index_add_(0, row, each)
        return found.view(x.shape)

    def _marginals(self, posterior: Tensor, values: int) -> Tensor:
        """[B, *D, V] the chance of each value of each token."""
        b, tokens = len(posterior), self.states.flatten(1).long().T  # [D, S]
        found = posterior.new_zeros(b, len(tokens), values)
        found.scatter_add_(
            2, tokens.expand(b, -1, -1), posterior[:, None].expand(-1, len(tokens), -1)
        )
        return found.view(b, *self.states.shape[1:], values)


def _entropies(posterior: Tensor, tokens: Tensor) -> Tensor:
    """[B, N] of the values of ``tokens`` [S, N], each state as likely as ``posterior`` [B, S]."""
    values, state = tokens.sort(0)
    new = torch.nn.functional.pad(values[1:] != values[:-1], (0, 0, 1, 0))
    number = new.cumsum(0)  # [S, N] of a value among those of its token
    found = []
    for row in posterior:
        chances = torch.zeros(tokens.shape, dtype=row.dtype, device=row.device)
        chances = chances.scatter_add(0, number, row[state])
        found.append(torch.special.entr(chances).sum(0))
    return torch.stack(found)


def _values(process: Process) -> int:
    """V"""
    values = process.signature().out_states
    assert values is not None, "a process over tokens asks for their probabilities"
    return values


def _rows_at_once(process: Process) -> int:
    """Of how many examples the chances of all values may be in memory."""
    if "real" in process.traits:
        return _AT_ONCE  # there are none
    numbers = process.data.dims * _values(process)
    if numbers > _MOST:
        raise ElbowroomError(
            f"excess: {type(process).__name__} asks for the chance of each of {_values(process)} "
            f"values of {process.data.dims} tokens, {numbers:,} numbers for one example, and "
            f"{_MOST:,} are the most; of a masked process one for each token is enough"
        )
    return max(1, _AT_ONCE // numbers)


def _log_likelihood_real(z: Tensor, x: Tensor, level: Level) -> Tensor:
    """log q(z | x) of every pair, [B, S] float64, up to what x has no part in.

    -|z - a x|^2 / 2 b^2  =  (a/b^2) z x - (a^2/b^2) x^2 / 2 + ...
    """
    at = attrs.evolve(level, log_snr=level.log_snr.double())
    of_z, x = at.share.sqrt() / at.noise_share * z.double(), x.double().flatten(1)
    return of_z.flatten(1) @ x.T - at.snr.expand(z.shape).flatten(1) @ x.square().T / 2


def _log_likelihood(process: Process, z: Tensor, x: Tensor, level: Level) -> Tensor:
    """log q(z | x) of every pair, [B, S] float64."""
    b, found = len(z), []
    for part in x.split(max(1, _AT_ONCE // z.numel())):
        row = torch.arange(b, device=z.device).repeat_interleave(len(part))
        pairs = part.repeat(b, *[1] * (x.ndim - 1))
        chance = process.log_likelihood(z[row], pairs, level.select(row))
        found.append(chance.double().view(b, len(part)))
    return torch.cat(found, 1)

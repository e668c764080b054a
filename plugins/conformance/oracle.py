"""Oracles: exact denoisers of known distributions.

For a table of states with probabilities, any process with a log-likelihood has the posterior

    q(x | z) ~ q(x) q(z | x),

which gives the best prediction: the marginal of each token, or the mean. A mixture of normals has
its posterior mean in closed form.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import attrs
import torch
from elbowroom import (
    CategoricalPrediction,
    DataSpec,
    Level,
    Process,
    RealPrediction,
    Schedule,
    installed,
)
from elbowroom.objective import Predict
from torch import Tensor


@attrs.frozen(eq=False)
class TableOracle:
    """A distribution over finitely many examples, and its exact denoiser under any process."""

    states: Tensor  # [S, *D] integers
    probabilities: Tensor  # [S] float64, summing to 1
    power: float = 1.0  # below 1: a tempered, imperfect denoiser

    @classmethod
    def point_mass(cls, x: Tensor) -> TableOracle:
        """All probability on one example [*D]."""
        return cls(x[None], torch.ones(1, dtype=torch.float64))

    @property
    def entropy(self) -> float:
        """In nats."""
        return float(-torch.special.xlogy(self.probabilities, self.probabilities).sum())

    def posterior(self, process: Process, z: Tensor, level: Level) -> Tensor:
        """q(x | z), [B, S], at levels that broadcast against z [B, *D]; q(x) for an impossible z.

        A sampler of finitely many steps may reach such a z, by tokens it unmasks together.
        """
        encoded = process.encode(self.states).to(
            torch.float64 if z.is_floating_point() else z.dtype
        )
        log_joint = []
        for x, probability in zip(encoded, self.probabilities, strict=True):
            log_joint.append(probability.log() + process.log_likelihood(z, x.expand_as(z), level))
        joint = torch.stack(log_joint, -1).double()  # [B, S]
        impossible = (joint == -torch.inf).all(-1, keepdim=True)
        return torch.where(impossible, self.probabilities.log().to(joint), joint).softmax(-1)

    def predict(self, process: Process) -> Predict:
        """The exact denoiser: each token's marginal, or the posterior mean."""
        if "real" in process.traits:
            return self._mean(process)
        states = process.signature().out_states
        assert states is not None, "a process over tokens predicts their probabilities"
        return self._marginals(process, states)

    def _mean(self, process: Process) -> Predict:
        encoded = process.encode(self.states).double()

        def predict(z: Tensor, level: Level) -> RealPrediction:
            posterior = self.posterior(process, z, level)
            x = torch.einsum("bs,s...->b...", posterior, encoded)
            return RealPrediction(z, level, given_x=x.to(z.dtype))

        return predict

    def _marginals(self, process: Process, states: int) -> Predict:
        one_hot = torch.nn.functional.one_hot(self.states, states).double()  # [S, *D, V]

        def predict(z: Tensor, level: Level) -> CategoricalPrediction:
            posterior = self.posterior(process, z, level)
            marginal = torch.einsum("bs,s...->b...", posterior, one_hot)
            return CategoricalPrediction(self.power * marginal.log())

        return predict


DATA = DataSpec((2,), 3)
TABLE = TableOracle(
    torch.tensor([[0, 1], [2, 2], [1, 0]]), torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
)
"""Three examples of two tokens with three levels."""


def counts_in(table: TableOracle, x: Tensor) -> tuple[Tensor, int]:
    """Counts of each state [S] among the samples ``x`` [N, *D], and of all others."""
    hit = (x[:, None] == table.states[None]).flatten(2).all(-1)  # [N, S]
    return hit.sum(0), int((~hit.any(1)).sum())


def natural_schedule_of(process: Process) -> Schedule:
    """The natural schedule of a process."""
    schedule: Schedule = installed().find("schedule", process.natural_schedule).load()()
    return schedule


def every_state(shape: Sequence[int], states: int) -> Tensor:
    """All integer arrays of a (small) shape, [states ** n, *shape]."""
    count = math.prod(shape)
    rows = list(itertools.product(range(states), repeat=count))
    return torch.tensor(rows).reshape(len(rows), *shape)


@attrs.frozen(eq=False)
class MixtureOracle:
    """A mixture of normals for each element independently, under Gaussian noise."""

    weights: Tensor  # [K]
    means: Tensor  # [K]
    stds: Tensor  # [K]

    @classmethod
    def normal(cls, mean: float = 0.0, std: float = 1.0) -> MixtureOracle:
        """A single normal."""
        one = torch.ones(1, dtype=torch.float64)
        return cls(one, mean * one, std * one)

    def log_density(self, z: Tensor, share: Tensor) -> Tensor:
        """log q(z) at a share of signal, elementwise; share = 1 is the data itself."""
        return self._log_joint(z, share).logsumexp(-1)

    def posterior_mean(self, z: Tensor, share: Tensor) -> Tensor:
        """E[x | z], elementwise."""
        responsibility = self._log_joint(z, share).softmax(-1)
        a, shared = share.sqrt().unsqueeze(-1), share.unsqueeze(-1)
        gain = a * self.stds**2 / (shared * self.stds**2 + 1 - shared)
        return (responsibility * (self.means + gain * (z.unsqueeze(-1) - a * self.means))).sum(-1)

    def linear_mean(self, z: Tensor, share: Tensor) -> Tensor:
        """The best estimate of x that is linear in z."""
        mean = (self.weights * self.means).sum()
        variance = (self.weights * (self.stds**2 + self.means**2)).sum() - mean**2
        a = share.sqrt()
        return mean + a * variance / (share * variance + 1 - share) * (z - a * mean)

    def predict(self, z: Tensor, level: Level) -> RealPrediction:
        """The exact denoiser."""
        return RealPrediction(z, level, given_x=self.posterior_mean(z, level.share))

    def predict_linear(self, z: Tensor, level: Level) -> RealPrediction:
        """The best linear denoiser."""
        return RealPrediction(z, level, given_x=self.linear_mean(z, level.share))

    def _log_joint(self, z: Tensor, share: Tensor) -> Tensor:
        """log of weight * N(z; a mean, share std^2 + 1 - share), [..., K]."""
        a, shared = share.sqrt().unsqueeze(-1), share.unsqueeze(-1)
        variance = shared * self.stds**2 + 1 - shared
        square = (z.unsqueeze(-1) - a * self.means) ** 2 / variance
        return self.weights.log() - (square + (2 * torch.pi * variance).log()) / 2

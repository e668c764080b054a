"""``toy`` and ``toy-bits``: distributions with known probabilities.

    toy       27 states: three values a, b, c in {0, 1, 2} with
              q(a, b, c) ~ exp(1.5 cos(2 pi (a-b)/3) + 1.0 cos(2 pi (b-c)/3) + 0.3 a)
    toy-bits  2^n states: independent bits, bit i is one with probability p_i, the p_i evenly
              spaced from ``low`` to ``high``

So exact denoisers can be built, and the entropy, the least possible negative log-likelihood, is
known. Examples are independent draws: example i of a split is a function of (split, i).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property

import attrs
import torch
from attrs.validators import and_, ge, gt, le, lt
from elbowroom import Batch, Dataset, DataSpec, Noise, Split
from elbowroom.contracts import check_split
from torch import Tensor

from .splits import check_indices

_SEED = 0  # part of the definition of the splits: never changes


@attrs.frozen(kw_only=True, slots=False)  # no slots: tables are kept by cached_property
class Tabular(Dataset):
    """A distribution over a table of states, by ``spec``, ``states`` and ``log_weights``."""

    examples: int = attrs.field(default=65_536, validator=ge(1))  # in train; a tenth in the others

    @property
    @abstractmethod
    def states(self) -> Tensor:
        """[S, *shape] int64: every state with positive probability, each once."""

    @property
    @abstractmethod
    def log_weights(self) -> Tensor:
        """[S] float64: log-probabilities up to a constant."""

    @cached_property
    def probabilities(self) -> Tensor:
        """[S] float64, in the order of ``states``."""
        return self.log_weights.softmax(0)

    @cached_property
    def entropy(self) -> float:
        """In nats."""
        return float(torch.special.entr(self.probabilities).sum())

    def split(self, name: str) -> Split:
        count = self.examples if check_split(name) == "train" else -(-self.examples // 10)
        return Draws(self.states, self.probabilities.cumsum(0), f"toy/{name}", count)


@attrs.frozen(eq=False)
class Draws(Split):
    """Independent draws by inversion of the distribution function."""

    states: Tensor  # [S, *shape]
    cumulative: Tensor  # [S]
    label: str
    count: int

    def __len__(self) -> int:
        return self.count

    def take(self, indices: Tensor) -> Batch:
        check_indices(indices, self.count)
        if not len(indices):
            return Batch(self.states[:0])
        u = Noise(_SEED, indices.cpu(), self.count).uniform(self.label)
        state = torch.searchsorted(self.cumulative, u).clamp_(max=len(self.states) - 1)
        return Batch(self.states[state])


@attrs.frozen(kw_only=True, slots=False)
class CoupledTriple(Tabular):
    """Three coupled values of three levels."""

    @property
    def spec(self) -> DataSpec:
        return DataSpec((3,), levels=3)

    @cached_property
    def states(self) -> Tensor:
        return torch.cartesian_prod(*[torch.arange(3)] * 3)

    @cached_property
    def log_weights(self) -> Tensor:
        a, b, c = self.states.double().unbind(1)
        third = 2 * math.pi / 3
        return 1.5 * torch.cos(third * (a - b)) + torch.cos(third * (b - c)) + 0.3 * a


_PROBABILITY = and_(gt(0.0), lt(1.0))


@attrs.frozen(kw_only=True, slots=False)
class IndependentBits(Tabular):
    """Independent bits."""

    bits: int = attrs.field(default=4, validator=and_(ge(1), le(16)))
    low: float = attrs.field(default=0.1, validator=_PROBABILITY)
    high: float = attrs.field(default=0.9, validator=_PROBABILITY)

    @property
    def spec(self) -> DataSpec:
        return DataSpec((self.bits,), levels=2)

    @cached_property
    def states(self) -> Tensor:
        return torch.arange(2**self.bits)[:, None] >> torch.arange(self.bits) & 1

    @cached_property
    def log_weights(self) -> Tensor:
        p = torch.linspace(self.low, self.high, self.bits, dtype=torch.float64)
        one = self.states.double()
        return (one * p.log() + (1 - one) * (-p).log1p()).sum(1)

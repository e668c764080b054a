"""Mean and covariance of a stream of vectors, and the Fréchet distance of two such pairs.

    m = sum v / n,      S = (sum v v' - n m m') / (n - 1)

    d(1, 2) = |m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2))

The sums are in float64 and add up over batches and ranks. S1 S2 has the eigenvalues of the
symmetric R S2 R with R = S1^(1/2), and tr (S1 S2)^(1/2) is the sum of their roots. R is computed
once for each reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import attrs
import torch
from torch import Tensor


@attrs.frozen(eq=False)
class Moments:
    """Mean and covariance of a set of vectors."""

    mean: Tensor  # [F] float64
    covariance: Tensor  # [F, F] float64

    @cached_property
    def root(self) -> Tensor:
        """[F, F] the symmetric root of the covariance."""
        squares, vectors = torch.linalg.eigh(self.covariance)
        root: Tensor = (vectors * squares.clamp(min=0).sqrt()) @ vectors.T
        return root


def frechet(a: Moments, b: Moments) -> float:
    """The distance of the normals that have these moments."""
    means = (a.mean - b.mean).square().sum()
    squares = torch.linalg.eigvalsh(a.root @ b.covariance @ a.root)
    roots = squares.clamp(min=0).sqrt().sum()
    return float(means + a.covariance.trace() + b.covariance.trace() - 2 * roots)


class Sums:
    """What moments are made of: n, sum v [F] and sum v v' [F, F]."""

    def __init__(self, size: int) -> None:
        self.count = 0
        self._total = torch.zeros(size, dtype=torch.float64)
        self._squares = torch.zeros(size, size, dtype=torch.float64)

    @classmethod
    def over(cls, batches: Iterable[Tensor]) -> Sums:
        """Of vectors [B, F] each."""
        made = None
        for vectors in batches:
            made = made or cls(vectors.shape[1])
            made.update(vectors)
        return made or cls(0)

    def update(self, vectors: Tensor) -> None:
        """Take in vectors [B, F]."""
        v = vectors.double()
        self._total += v.sum(0)
        self._squares += v.T @ v
        self.count += len(v)

    def __sub__(self, part: Sums) -> Sums:
        """The sums over all vectors but those of a part."""
        rest = Sums(0)
        rest.count = self.count - part.count
        rest._total, rest._squares = self._total - part._total, self._squares - part._squares
        return rest

    def state(self) -> dict[str, Tensor]:
        """The sums, as tensors."""
        return {
            "count": torch.tensor(self.count),
            "total": self._total.clone(),
            "squares": self._squares.clone(),
        }

    def merge(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        """Go on from what all of them took in."""
        self.count = sum(int(state["count"]) for state in states)
        self._total = torch.stack([state["total"] for state in states]).sum(0)
        self._squares = torch.stack([state["squares"] for state in states]).sum(0)

    def moments(self) -> Moments:
        """Mean and covariance so far."""
        if self.count < 2:
            raise RuntimeError("a covariance needs at least two examples")
        mean = self._total / self.count
        spread = self._squares - self.count * mean.outer(mean)
        return Moments(mean, spread / (self.count - 1))

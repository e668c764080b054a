"""Improved precision and recall (Kynkäänniemi et al. 2019): how good samples are, how varied.

The manifold of a set Y is the union of balls about its members, each as wide as the distance to the
member's k-th nearest other:

    M(Y) = { v : |v - y| <= r_k(y) for a y in Y },      r_k(y) = distance to the k-th nearest of Y

    precision = share of the samples that lie in M(train)
    recall    = share of train that lies in M(samples)

over vectors of a feature network. Models of one mode have precision 1 and recall 0; models that
draw everything and nothing well the other way round. Balls need all pairs, so both sets are
limited: the first ``limit`` samples by their numbers, and of train a random part of at most
``reference_limit``. Both shares grow with the size of the set that makes the balls: compare equal
numbers only. The standard error of precision is that of other samples, sqrt(p (1 - p) / n); recall
has none of its own, as every ball depends on several samples. The floor, which here is a ceiling,
is that of the test split in the samples' place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs
import torch
from elbowroom import Display, IncompatibleError, Measurement, Metric, Subject
from torch import Tensor

from .features import Eye, FeatureSpec, compact, eye
from .kept import of_real_data

_ROWS = 1000  # vectors against all others at a time
_ROUNDING = 1e-12  # squared distances below this share of the squared lengths are zero


@attrs.define(eq=False)
class PrecisionRecall(Metric):
    """Precision and recall against train."""

    display: ClassVar[Mapping[str, Display]] = {
        "precision": Display("precision"),
        "recall": Display("recall"),
    }

    features: FeatureSpec = "classifier"
    k: int = attrs.field(default=3, validator=attrs.validators.ge(1))
    limit: int = attrs.field(default=10_000, validator=attrs.validators.ge(2))
    reference_limit: int = attrs.field(default=10_000, validator=attrs.validators.ge(2))

    _eye: Eye = attrs.field(init=False, repr=False)
    _train: Manifold = attrs.field(init=False, repr=False)
    _floor: tuple[float, float] = attrs.field(init=False, default=(1.0, 1.0), repr=False)
    _next: int = attrs.field(init=False, default=0, repr=False)  # number of the next sample
    _seen: list[Tensor] = attrs.field(init=False, factory=list, repr=False)  # [B, F] each

    def prepare(self, subject: Subject) -> None:
        for split in ("train", "test"):
            if (count := len(subject.data.split(split))) <= self.k:
                raise IncompatibleError(
                    f"precision and recall with k: {self.k} need more than {self.k} examples, and "
                    f"the {split} split has {count}"
                )
        self._eye = eye(self.features, subject)
        settings = (self.k, self.reference_limit)
        real = of_real_data(
            subject, __file__, self._eye.network.identity, settings, lambda: self._real(subject)
        )
        self._train = Manifold(real["vectors"], real["radii"])
        self._floor = (float(real["precision"]), float(real["recall"]))
        self._next, self._seen = 0, []

    def _real(self, subject: Subject) -> dict[str, Tensor]:
        """The manifold of train, and what the test split gets against it."""
        train, test = (
            Manifold.of(self._eye.some(split, subject, self.reference_limit), self.k)
            for split in ("train", "test")
        )
        floor = {"precision": train.holds(test.vectors), "recall": test.holds(train.vectors)}
        shares = {name: share(held) for name, held in floor.items()}
        return {"vectors": train.vectors, "radii": train.radii, **shares}

    def update(self, samples: Tensor, labels: Tensor | None) -> None:
        few = self._eye(samples).vectors[: max(self.limit - self._next, 0)]
        self._next += len(samples)
        if len(few):
            self._seen.append(compact(few.clone()))

    def skip(self, count: int) -> None:
        self._next += count

    def state(self) -> dict[str, Tensor]:
        return {"vectors": torch.cat([self._train.vectors[:0], *self._seen])}

    def merge(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        self._seen = [state["vectors"] for state in states]

    def compute(self) -> dict[str, Measurement]:
        seen = self.state()["vectors"]
        if len(seen) <= self.k:
            raise RuntimeError(f"precision and recall need more than {self.k} samples")
        values = (share(self._train.holds(seen)), self._recall(seen))
        of = {
            "against": f"{len(self._train.vectors)} train examples",
            "k": self.k,
            "samples": len(seen),
            **self._eye.network.protocol(),
        }
        precision = float(values[0])
        errors = (math.sqrt(precision * (1 - precision) / len(seen)), None)
        return {
            name: Measurement(float(value), error, "higher", floor, of)
            for name, value, error, floor in zip(
                self.display, values, errors, self._floor, strict=True
            )
        }

    def _recall(self, seen: Tensor) -> Tensor:
        return share(Manifold.of(seen, self.k).holds(self._train.vectors))


@attrs.frozen(eq=False)
class Manifold:
    """Balls about the vectors of a set."""

    vectors: Tensor  # [N, F]
    radii: Tensor  # [N] squared, float64

    @classmethod
    def of(cls, vectors: Tensor, k: int) -> Manifold:
        """Each ball reaches to the k-th nearest other vector."""
        radii = []
        for first in range(0, len(vectors), _ROWS):
            apart = squared_distances(vectors[first : first + _ROWS], vectors)  # [rows, N]
            apart.diagonal(first).fill_(torch.inf)  # nothing is its own neighbour
            radii.append(apart.kthvalue(k, 1).values)
        return cls(vectors, torch.cat(radii))

    def holds(self, others: Tensor) -> Tensor:
        """[B] bool: does each of the vectors [B, F] lie in some ball?"""
        return torch.cat(
            [
                (squared_distances(few, self.vectors) <= self.radii).any(1)
                for few in others.split(_ROWS)
            ]
        )


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """[N, M] float64: |a|^2 - 2ab + |b|^2, zero for copies whatever the rounding."""
    a, b = a.double(), b.double()
    lengths = a.square().sum(1)[:, None] + b.square().sum(1)
    apart = torch.addmm(lengths, a, b.T, alpha=-2)
    return apart.masked_fill_(apart < _ROUNDING * lengths, 0.0)


def share(held: Tensor) -> Tensor:
    """How many of them, as a part of all."""
    return held.double().mean()

"""KID: the squared maximum mean discrepancy of features (Binkowski et al. 2018), unbiased.

    KID = E k(x, x') + E k(y, y') - 2 E k(x, y),      k(a, b) = (a.b / F + 1)^3

over pairs of different samples x, x' and reference examples y, y'. The pairs with the reference are
all taken; those among samples within blocks of ``block`` as they come, so that memory does not grow
with the samples; the spread over blocks gives the standard error. One block is the plain estimator.
(torchmetrics keeps every feature and draws its subsets from the global generator; the kernel is
its own.)
"""

from __future__ import annotations

import math

import attrs
import torch
from elbowroom.metric import Figure, Metric, Subject
from torch import Tensor

from .features import Eye, eye
from .kept import of_real_data

SPLITS = ("train", "test")


@attrs.define(eq=False)
class KID(Metric):
    """KID against train and against test."""

    features: str = "classifier"
    block: int = attrs.field(default=1000, validator=attrs.validators.ge(2))
    reference_limit: int = attrs.field(default=10_000, validator=attrs.validators.ge(2))

    _eye: Eye = attrs.field(init=False, repr=False)
    _against: dict[str, Discrepancy] = attrs.field(init=False, factory=dict, repr=False)
    _floor: dict[str, float] = attrs.field(init=False, factory=dict, repr=False)

    def prepare(self, subject: Subject) -> None:
        self._eye = eye(self.features, subject)
        settings = (self.reference_limit,)
        real = of_real_data(
            subject, __file__, self._eye.network.identity, settings, lambda: self._real(subject)
        )
        self._against = {
            split: Discrepancy(real[f"{split} rows"], self.block, real[f"{split} pairs"])
            for split in SPLITS
        }
        self._floor = {split: float(real[f"{split} floor"]) for split in SPLITS}

    def _real(self, subject: Subject) -> dict[str, Tensor]:
        """The reference of each split, its own pairs, and KID of the other split against it."""
        rows = {split: self._reference(split, subject) for split in SPLITS}
        pairs = {split: _pairs(some.double()) for split, some in rows.items()}
        found = {}
        for split, other in zip(SPLITS, reversed(SPLITS), strict=True):
            one = Discrepancy(rows[split], self.reference_limit, pairs[split])
            one.update(rows[other])
            found[f"{split} rows"], found[f"{split} pairs"] = rows[split], pairs[split]
            found[f"{split} floor"] = torch.tensor(one.compute()[0], dtype=torch.float64)
        return found

    def _reference(self, split: str, subject: Subject) -> Tensor:
        """[N, F] features of the split, thinned evenly where it is larger than the limit."""
        part = subject.data.split(split)
        count = min(len(part), self.reference_limit)
        rows = torch.arange(count) * len(part) // count
        looked = [
            self._eye(part.take(some).x).vectors.clone() for some in rows.split(subject.batch_size)
        ]
        return _compact(torch.cat(looked))

    def update(self, samples: Tensor, labels: Tensor | None) -> None:
        vectors = self._eye(samples).vectors
        for one in self._against.values():
            one.update(vectors)

    def compute(self) -> dict[str, Figure]:
        figures = {}
        for split, one in self._against.items():
            value, error = one.compute()
            against = f"{len(one.reference)} {split} examples"
            of = {"against": against, "block": self.block, **self._eye.network.protocol()}
            figures[f"kid_{split}"] = Figure(value, error, "lower", self._floor[split], of)
        return figures


class Discrepancy:
    """KID of a stream of vectors against a reference [N, F], in constant memory."""

    def __init__(self, reference: Tensor, block: int, among: Tensor | None = None) -> None:
        self.reference = reference.double()
        self._block = block
        self._waiting = self.reference.new_empty(0, reference.shape[1])
        self._among = _pairs(self.reference) if among is None else among
        self._sums = torch.zeros(3, dtype=torch.float64)  # weights, weighted values, squares
        self._blocks = 0

    def update(self, vectors: Tensor) -> None:
        """Take in vectors [B, F]."""
        self._waiting = torch.cat([self._waiting, vectors.double()])
        while len(self._waiting) >= self._block:
            self._sums += self._judged(self._waiting[: self._block])
            self._blocks += 1
            self._waiting = self._waiting[self._block :]

    def compute(self) -> tuple[float, float | None]:
        """KID, and its standard error where there were two blocks or more."""
        sums, blocks = self._sums, self._blocks
        if len(self._waiting) > 1:  # a last block, smaller than the others: it weighs less
            sums, blocks = sums + self._judged(self._waiting), blocks + 1
        weight, total, squares = sums.tolist()
        if not blocks:
            raise RuntimeError("KID needs at least two samples")
        mean = total / weight
        if blocks < 2:
            return mean, None
        variance = max(squares / weight - mean**2, 0.0) * blocks / (blocks - 1)
        return mean, math.sqrt(variance / blocks)

    def _judged(self, block: Tensor) -> Tensor:
        """Weight, weighted KID, weighted square of one block."""
        value = _pairs(block) + self._among - 2 * _kernel(block, self.reference).mean()
        return torch.stack((torch.ones_like(value), value, value**2)) * len(block)


def _compact(x: Tensor) -> Tensor:
    """The same numbers in half the room, where they came in single precision."""
    single = x.float()
    return single if torch.equal(single.double(), x) else x


def _kernel(a: Tensor, b: Tensor) -> Tensor:
    from torchmetrics.image.kid import poly_kernel

    kernel: Tensor = poly_kernel(a, b)  # degree 3, gamma 1/F, coefficient 1
    return kernel


def _pairs(x: Tensor) -> Tensor:
    """E k(x, x') over pairs of different rows of x [N, F]."""
    kernel = _kernel(x, x)
    return (kernel.sum() - kernel.diagonal().sum()) / (len(x) * (len(x) - 1))

"""KID: the squared maximum mean discrepancy of features (Binkowski et al. 2018), unbiased.

    KID = E k(x, x') + E k(y, y') - 2 E k(x, y),      k(a, b) = (a.b / F + 1)^3

over pairs of different samples x, x' and reference examples y, y'. The pairs with the reference are
all taken; those among samples within blocks of ``block`` by their numbers, so that memory does not
grow with the samples (copies on several ranks have parts of blocks at their ends, which are put
together when they are merged). One block is the plain estimator. (torchmetrics keeps every feature
and draws its subsets from the global generator; the kernel is its own.)

Standard error, of other samples with the same reference. Given the reference, KID is the mean over
pairs of samples in a block of

    h(x, x') = k(x, x') - r(x) - r(x') + constant,      r(x) = mean over y of k(x, y),

a U-statistic. With p = var E[h | x] and q = var h, both estimated without bias from sums over the
block (of B samples), its variance is

    (4 (B - 2) p + 2 q) / (B (B - 1)),

where p is taken as at least 0. Near the null p is nearly 0 and the pairs' part 2 q / (B (B - 1)) is
what remains. p and q are pooled over blocks, and the blocks' variances add up by their weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs
import torch
from elbowroom import Display, Measurement, Metric, Subject
from torch import Tensor

from .features import Eye, FeatureSpec, eye
from .kept import of_real_data

SPLITS = ("train", "test")
_ROWS = 1000  # of the reference, against all others at a time


@attrs.define(eq=False)
class KID(Metric):
    """KID against train and against test."""

    usual: ClassVar[int | None] = 30
    display: ClassVar[Mapping[str, Display]] = {
        "kid_train": Display("KID train (×1)", "report"),
        "kid_test": Display("KID test (×1)", "detail"),
    }

    features: FeatureSpec = "classifier"
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
            split: Discrepancy(
                real[f"{split} features"],
                self.block,
                real[f"{split} among"],
            )
            for split in SPLITS
        }
        self._floor = {split: float(real[f"{split} floor"]) for split in SPLITS}

    def _real(self, subject: Subject) -> dict[str, Tensor]:
        """The reference of each split, its own pairs, and KID of the other split against it."""
        rows = {split: self._eye.some(split, subject, self.reference_limit) for split in SPLITS}
        found = {}
        for split, other in zip(SPLITS, reversed(SPLITS), strict=True):
            among = _mean_of_pairs(rows[split].double())
            one = Discrepancy(rows[split], self.reference_limit, among)
            one.update(rows[other])
            found[f"{split} features"], found[f"{split} among"] = rows[split], among
            found[f"{split} floor"] = torch.tensor(one.compute()[0], dtype=torch.float64)
        return found

    def update(self, samples: Tensor, labels: Tensor | None) -> None:
        vectors = self._eye(samples).vectors
        for one in self._against.values():
            one.update(vectors)

    def skip(self, count: int) -> None:
        for one in self._against.values():
            one.skip(count)

    def state(self) -> dict[str, Tensor]:
        return {
            f"{split} {name}": value
            for split, one in self._against.items()
            for name, value in one.state().items()
        }

    def merge(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        for split, one in self._against.items():
            one.merge([_of(split, state) for state in states])

    def compute(self) -> dict[str, Measurement]:
        measurements = {}
        for split, one in self._against.items():
            value, error = one.compute()
            against = f"{len(one.reference)} {split} examples"
            of = {"against": against, "block": self.block, **self._eye.network.protocol()}
            measurements[f"kid_{split}"] = Measurement(
                value, error, "lower", self._floor[split], of
            )
        return measurements


def _mean_of_pairs(x: Tensor) -> Tensor:
    """The mean of k over pairs of different rows of x [N, F], some rows against all at a time."""
    total = x.new_zeros(())
    for first in range(0, len(x), _ROWS):
        kernel = _kernel(x[first : first + _ROWS], x)
        total += kernel.sum() - kernel.diagonal(first).sum()  # nothing is its own partner
    return total / (len(x) * (len(x) - 1))


class Discrepancy:
    """KID of a stream of vectors against a reference [N, F], in constant memory."""

    def __init__(self, reference: Tensor, block: int, among: Tensor | None = None) -> None:
        self.reference = reference.double()
        self._block = block
        self._next = 0  # the number of the next vector
        self._waiting: dict[int, Tensor] = {}  # block -> those of its vectors that came
        self._among = _mean_of_pairs(self.reference) if among is None else among
        self._sums = torch.zeros(7, dtype=torch.float64)  # as _judged has them

    def update(self, vectors: Tensor) -> None:
        """Take in vectors [B, F]."""
        while len(vectors):
            block, place = divmod(self._next, self._block)
            few = vectors[: self._block - place].double()
            self._wait(block, few)
            self._next, vectors = self._next + len(few), vectors[len(few) :]

    def skip(self, count: int) -> None:
        """Others take in the next ``count`` vectors."""
        self._next += count

    def _wait(self, block: int, few: Tensor) -> None:
        """More vectors of a block; when it is whole it is judged."""
        known = torch.cat([self._waiting.pop(block, few[:0]), few])
        if len(known) < self._block:
            self._waiting[block] = known
            return
        self._sums = self._sums + self._judged(known)

    def state(self) -> dict[str, Tensor]:
        """The sums, and the vectors that wait with their blocks."""
        none = self.reference[:0]
        blocks = [torch.full((len(few),), block) for block, few in self._waiting.items()]
        return {
            "sums": self._sums,
            "waiting": torch.cat([none, *self._waiting.values()]),
            "blocks": torch.cat([torch.empty(0, dtype=torch.int64), *blocks]),
        }

    def merge(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        """Go on from what all of them took in."""
        self._sums = torch.stack([state["sums"] for state in states]).sum(0)
        self._waiting = {}
        for state in states:
            for block in state["blocks"].unique().tolist():
                self._wait(block, state["waiting"][state["blocks"] == block])

    def compute(self) -> tuple[float, float | None]:
        """KID, and its standard error; None where all blocks have fewer than four samples."""
        sums = self._sums
        for few in self._waiting.values():  # the last block, smaller than the others, weighs less
            if len(few) > 1:
                sums = sums + self._judged(few)
        count, pairs, of_one, of_pair, known, p, q = sums.tolist()
        if not count:
            raise RuntimeError("KID needs at least two samples")
        value = pairs / count + float(self._among)
        if not known:
            return value, None
        variance = of_one * max(p / known, 0.0) + of_pair * max(q / known, 0.0)
        return value, math.sqrt(variance) / count

    def _judged(self, block: Tensor) -> Tensor:
        """What a block of B samples adds to the sums.

        B, B mean h, the factors of p and q in the variance of B mean h; B, B p, B q where B >= 4.
        """
        size, alone = len(block), _kernel(block, self.reference).mean(1)
        h = _kernel(block, block) - alone[:, None] - alone
        h.fill_diagonal_(0)
        total, rows, squares = h.sum(), h.sum(1).square().sum(), h.square().sum()
        pairs = size * (size - 1)
        found = [
            size,
            total / (size - 1),
            4 * size * (size - 2) / (size - 1),
            2 * size / (size - 1),
        ]
        if size < 4:
            return torch.tensor([*found, 0, 0, 0], dtype=torch.float64)
        square = (total**2 - 4 * rows + 2 * squares) / (pairs * (size - 2) * (size - 3))  # (E h)^2
        p = (rows - squares) / (pairs * (size - 2)) - square
        q = squares / pairs - square
        return torch.tensor([*found, size, size * p, size * q], dtype=torch.float64)


def _of(split: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What a state says of a split."""
    mine = {key: value for key, value in state.items() if key.startswith(f"{split} ")}
    return {key.removeprefix(f"{split} "): value for key, value in mine.items()}


def _kernel(a: Tensor, b: Tensor) -> Tensor:
    """(a·b/F + 1)³, F the number of features."""
    return (a @ b.T * (1.0 / a.shape[1]) + 1.0) ** 3

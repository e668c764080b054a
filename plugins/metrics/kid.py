"""KID: the squared maximum mean discrepancy of features (Binkowski et al. 2018), unbiased.

    KID = E k(x, x') + E k(y, y') - 2 E k(x, y),      k(a, b) = (a.b / F + 1)^3

over pairs of different samples x, x' and reference examples y, y'. The pairs with the reference are
all taken; those among samples within blocks of ``block`` by their numbers, so that memory does not
grow with the samples (copies on several ranks have parts of blocks at their ends, which are put
together when they are merged). One block is the plain estimator. (torchmetrics keeps every feature
and draws its subsets from the global generator; the kernel is its own.)

Standard error, of samples *and* reference: with other ones of both, KID would differ by so much. It
is a U-statistic of m samples and n reference examples. What each has to do with it is

    e_i = 2 (mean over x' of k(x_i, x') - mean over y of k(x_i, y))      and likewise d_j of y_j,

and if each stood for itself, var(e)/m + var(d)/n would be its variance. But each mean is one over a
finite number of partners, and so adds a part of what pairs have beyond their two members,

    z = var( k(y, y') - E k(y, .) - E k(., y') + E k ),     s = z (2/(m B) + 2/n^2 + 4/(m n)),

in blocks of B: of which the estimator has s, and var(e)/m + var(d)/n has 2 s. Hence

    variance = max(var(e)/m + var(d)/n - 2 s, 0) + s.
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
                Among(real[f"{split} each"], real[f"{split} pairs"]),
            )
            for split in SPLITS
        }
        self._floor = {split: float(real[f"{split} floor"]) for split in SPLITS}

    def _real(self, subject: Subject) -> dict[str, Tensor]:
        """The reference of each split, its own pairs, and KID of the other split against it."""
        rows = {split: self._eye.some(split, subject, self.reference_limit) for split in SPLITS}
        found = {}
        for split, other in zip(SPLITS, reversed(SPLITS), strict=True):
            among = Among.of(rows[split].double())
            one = Discrepancy(rows[split], self.reference_limit, among)
            one.update(rows[other])
            found[f"{split} features"] = rows[split]
            found[f"{split} each"], found[f"{split} pairs"] = among.each, among.pairs
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


@attrs.frozen(eq=False)
class Among:
    """The pairs of a reference."""

    each: Tensor  # [N] mean of k(y_j, y') over the others
    pairs: Tensor  # z: the variance of what a pair has beyond its members

    @classmethod
    def of(cls, x: Tensor) -> Among:
        """Of the rows of x [N, F], some of them against all at a time."""
        count = len(x)
        totals = []
        for first in range(0, count, _ROWS):
            kernel = _kernel(x[first : first + _ROWS], x)
            kernel.diagonal(first).zero_()  # nothing is its own partner
            totals.append(torch.stack((kernel.sum(1), kernel.square().sum(1)), 1))
        each, squares = (torch.cat(totals) / (count - 1)).unbind(1)
        pairs = squares.mean() - 2 * each.square().mean() + each.mean() ** 2
        return cls(each, pairs.clamp(min=0))


class Discrepancy:
    """KID of a stream of vectors against a reference [N, F], in constant memory."""

    def __init__(self, reference: Tensor, block: int, among: Among | None = None) -> None:
        self.reference = reference.double()
        self._block = block
        self._next = 0  # the number of the next vector
        self._waiting: dict[int, Tensor] = {}  # block -> those of its vectors that came
        self._among = among or Among.of(self.reference)
        # over samples: their number, k among them, e and e^2; over blocks: B / (B - 1)
        self._sums = torch.zeros(5, dtype=torch.float64)
        self._met = self.reference.new_zeros(len(reference))  # sum of k(x, y_j) over samples

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
        sums, met = self._judged(known)
        self._sums, self._met = self._sums + sums, self._met + met

    def state(self) -> dict[str, Tensor]:
        """The sums, and the vectors that wait with their blocks."""
        none = self.reference[:0]
        blocks = [torch.full((len(few),), block) for block, few in self._waiting.items()]
        return {
            "sums": self._sums,
            "met": self._met,
            "waiting": torch.cat([none, *self._waiting.values()]),
            "blocks": torch.cat([torch.empty(0, dtype=torch.int64), *blocks]),
        }

    def merge(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        """Go on from what all of them took in."""
        self._sums = torch.stack([state["sums"] for state in states]).sum(0)
        self._met = torch.stack([state["met"] for state in states]).sum(0)
        self._waiting = {}
        for state in states:
            for block in state["blocks"].unique().tolist():
                self._wait(block, state["waiting"][state["blocks"] == block])

    def compute(self) -> tuple[float, float]:
        """KID, and its standard error."""
        sums, met = self._sums, self._met
        for few in self._waiting.values():  # the last block, smaller than the others, weighs less
            if len(few) > 1:
                last = self._judged(few)
                sums, met = sums + last[0], met + last[1]
        m, among, e, squares, blocks = sums.tolist()
        if not m:
            raise RuntimeError("KID needs at least two samples")
        n, met = len(self.reference), met / m
        value = among / m + float(self._among.each.mean() - 2 * met.mean())
        alone = (squares / m - (e / m) ** 2) / (m - 1)  # var(e)/m
        alone += float((2 * (self._among.each - met)).var()) / n
        pairs = float(self._among.pairs) * (2 * blocks / m**2 + 2 / n**2 + 4 / (m * n))
        return value, math.sqrt(max(alone - 2 * pairs, 0.0) + pairs)

    def _judged(self, block: Tensor) -> tuple[Tensor, Tensor]:
        """What one block adds to the sums."""
        size, across = len(block), _kernel(block, self.reference)
        among = Among.of(block).each
        e = 2 * (among - across.mean(1))
        one = torch.ones_like(e)
        sums = torch.stack((one, among, e, e**2, one / (size - 1))).sum(1)
        return sums, across.sum(0)


def _of(split: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What a state says of a split."""
    mine = {key: value for key, value in state.items() if key.startswith(f"{split} ")}
    return {key.removeprefix(f"{split} "): value for key, value in mine.items()}


def _kernel(a: Tensor, b: Tensor) -> Tensor:
    from torchmetrics.image.kid import poly_kernel

    kernel: Tensor = poly_kernel(a, b)  # degree 3, gamma 1/F, coefficient 1
    return kernel

"""excess: at which levels a network loses bits that need not be lost.

A loss by level says little by itself: much of it no network can avoid. What it can is

    excess(lambda) = price(lambda) (E plain loss of the network - E plain loss of the optimum),

and its integral is the bound less the bound of the exact denoiser: bits/dim less the entropy, up to
what the ends of the schedule cost both. The optimum (``optimum.py``) is that of

    the data's distribution, where the data set knows it (``toy``), and the label's where a network
        is told labels: the excess itself
    the training examples, for looks at these (``split: train``): what more this network could learn
        of them by heart; estimated where they are more than ``limit`` (``sampled_optimum.py``)
    the training examples, for looks at others: the excess at most, since the best loss on some
        examples is below the best on all there could be. Where there is much noise it is close;
        where an example can be told from all the others its own loss is 0, and nothing is said

The levels are cut into cells that are even on a schedule half the model's own and half even over
lambda; ``looks`` in each have times drawn in it. What is lost in each cell, in bits/dim, is kept in
the evaluation's file with its standard error: ``network``, ``optimum``, ``excess``.

A standard error is what another split of this size, with other noise, would change. Looks repeat
the split's examples, so those of one example are added up before they are squared
(:func:`variance`). Where network and optimum are asked about different examples their variances
are added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import attrs
import torch
from attrs.validators import ge
from elbowroom import (
    Dataset,
    Display,
    ElbowroomError,
    Level,
    Looks,
    Measurement,
    Metric,
    Noise,
    Split,
    Subject,
    permute,
    some_of,
)
from torch import Tensor

from .optimum import Optimum
from .sampled_optimum import SampledOptimum

_STEP = 2**31 - 5  # a step that nothing else asks for


@attrs.frozen(eq=False)
class Examples:
    """Some of a split."""

    split: Split
    rows: Tensor  # [N]


@attrs.define(eq=False)
class Excess(Metric):
    """What a network loses beyond the optimum, by level."""

    uses_samples: ClassVar[bool] = False
    display: ClassVar[Mapping[str, Display]] = {
        "excess_bits_per_dim": Display("bits/dim above the optimum", "detail"),
        "excess_bits_per_dim_at_most": Display("bits/dim above the optimum, at most", "detail"),
    }

    split: Literal["train", "validation", "test"] = "validation"
    levels: int = attrs.field(default=32, validator=ge(1))  # cells
    looks: int = attrs.field(default=128, validator=ge(2))  # in each
    limit: int = attrs.field(default=2000, validator=ge(1))  # of the training examples

    _subject: Subject = attrs.field(init=False, repr=False)
    _optimum: Optimum = attrs.field(init=False, repr=False)
    _of_all: SampledOptimum | None = attrs.field(init=False, default=None, repr=False)
    _of_network: Examples = attrs.field(init=False, repr=False)  # what it is asked about
    _of_optimum: Examples = attrs.field(init=False, repr=False)
    _bits: Tensor | None = attrs.field(init=False, default=None, repr=False)  # of all ranks

    def prepare(self, subject: Subject) -> None:
        if subject.model is None:
            raise ElbowroomError("excess: there is no model whose loss could be measured")
        self._subject, self._bits, self._of_all = subject, None, None
        split, train = map(subject.data.split, (self.split, "train"))
        if not len(split):
            raise ElbowroomError(f"excess: the {self.split} split is empty")
        known = distribution(subject.data, split)
        if known is None and not len(train):
            raise ElbowroomError("excess: the train split is empty")
        self._of_network = self._of_optimum = Examples(split, torch.arange(len(split)))
        if known is not None:
            self._optimum = Optimum(*(part.to(subject.device) for part in known))
            return
        self._of_optimum = Examples(train, some_of(self.limit, len(train), subject.seed))
        self._optimum = Optimum.of_examples(train.take(self._of_optimum.rows), subject.device)
        if self.split == "train":
            self._of_network = self._of_optimum
            if len(self._of_optimum.rows) < len(train):
                if self.limit < 2:
                    raise ElbowroomError("excess: one example tells nothing of others: limit: 2")
                self._of_all = SampledOptimum(self._optimum, len(train))

    def state(self) -> dict[str, Tensor]:
        """The bits of this rank's share of the looks: some in a row."""
        return {"bits": self._part(self._subject.part)}

    def merge(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        self._bits = torch.cat([state["bits"] for state in states], 1)

    def compute(self) -> dict[str, Measurement]:
        excess, error = sum(self.details()["excess"]), self._error(slice(None))
        name = f"excess_bits_per_dim{'' if self._paired else '_at_most'}"
        return {name: Measurement(excess, error, "lower", of=self._protocol())}

    def details(self) -> dict[str, list[Any]]:
        """Bits/dim lost in each cell, from noise to data; of a single example there is no error."""
        each = self._lost_by_each()
        middle = self._level(torch.arange(self.levels) + 0.5)
        curve = {
            "log_snr": middle.log_snr,
            "network": each[0].mean(1),
            "optimum": each[1].mean(1),
            "excess": (each[0] - each[1]).mean(1),
        }
        errors = [self._error(slice(cell, cell + 1)) for cell in range(self.levels)]
        return {**{name: values.tolist() for name, values in curve.items()}, "error": errors}

    def _lost_by_each(self) -> Tensor:
        """[2, levels, looks] bits/dim that network and optimum lose."""
        if self._bits is None:
            self._bits = self._part((0, 1))
        return self._bits.view(2, self.levels, self.looks)

    def _error(self, cells: slice) -> float | None:
        """Standard error of the excess in some cells."""
        network, optimum = self._lost_by_each()[:, cells]
        numbers = torch.arange(self.levels * self.looks).view(self.levels, self.looks)[cells]
        asked, known = (self._rows(numbers, of) for of in (self._of_network, self._of_optimum))
        found = (
            variance(network - optimum, asked)
            if self._paired
            else variance(network, asked) + variance(optimum, known)
        )
        return math.sqrt(found) if math.isfinite(found) else None

    def _protocol(self) -> dict[str, Any]:
        count, split = len(self._optimum.states), self._of_network.split
        known = distribution(self._subject.data, split) is not None
        against = "the distribution" if known else f"{count} train examples"
        if self._of_all:
            against = f"{self._of_all.total} train examples, estimated from {count}"
        of = {"split": self.split, "against": against, "levels": self.levels, "looks": self.looks}
        return {**of, "given": "the label"} if has_labels(split) else of

    # -- looks: number k is in cell k // looks

    @property
    def _paired(self) -> bool:
        """Are network and optimum asked the same?"""
        return self._of_network is self._of_optimum

    @torch.no_grad()
    def _part(self, part: tuple[int, int]) -> Tensor:
        """[2, looks] what network and optimum lose, of the looks that a rank of so many takes."""
        rank, ranks = part
        batches = torch.arange(self.levels * self.looks).split(self._subject.batch_size)
        begin, end = (-(-r * len(batches) // ranks) for r in (rank, rank + 1))
        found = [self._looked(numbers) for numbers in batches[begin:end]]
        return torch.cat([torch.empty(2, 0, dtype=torch.float64), *found], 1)

    def _looked(self, numbers: Tensor) -> Tensor:
        """[2, B]"""
        model = self._subject.model
        assert model is not None
        x, y, z, at = self._asked(numbers, self._of_network)
        network = self._bits_of(model.process.plain_loss(x, z, model.predict(z, at, y), at), at)
        if not self._paired:
            x, y, z, at = self._asked(numbers, self._of_optimum)
        if self._of_all is None:
            best = self._optimum.plain_loss(model.process, x, z, at, y)
        else:
            own = self._places(numbers, self._of_optimum).to(z.device)
            best = self._of_all.plain_loss(model.process, x, z, at, y, own)
        return torch.stack([network, self._bits_of(best, at)]).cpu()

    def _asked(self, numbers: Tensor, of: Examples) -> tuple[Tensor, Tensor | None, Tensor, Level]:
        """x, label, z and level of some looks."""
        subject, total = self._subject, self.levels * self.looks
        assert subject.model is not None
        process, device = subject.model.process, subject.device
        batch = of.split.take(self._rows(numbers, of))
        x = process.encode(batch.x.to(device))
        y = None if batch.y is None else batch.y.to(device)
        noise = Noise(subject.seed, numbers, total, _STEP)
        at = self._level(numbers // self.looks + noise.uniform("time")).over(x, torch.float32)
        noise = attrs.evolve(noise, positions=numbers.to(device))
        return x, y, process.corrupt(x, at, noise), at

    def _rows(self, numbers: Tensor, of: Examples) -> Tensor:
        """Which example each look is at."""
        return of.rows[self._places(numbers, of)]

    def _places(self, numbers: Tensor, of: Examples) -> Tensor:
        """Which of the examples' rows that is."""
        order = permute(numbers, self.levels * self.looks, self._subject.seed, _STEP)
        return order % len(of.rows)

    def _level(self, place: Tensor) -> Level:
        """At a place 0 .. levels among the cells, from noise to data."""
        model = self._subject.model
        assert model is not None
        looks = Looks(model, self._of_network.split, self._of_network.rows[:1], 1, 0, 0, "cpu")
        return Level.of(1 - place.double() / self.levels, looks.schedule, model.process)

    def _bits_of(self, plain: Tensor, at: Level) -> Tensor:
        """[B] bits/dim that a plain loss [B, *D] is in its cell, by each look."""
        nats = (at.elbo_weight * plain).flatten(1).sum(1).double() / self.levels
        return nats / (self._subject.data.spec.dims * math.log(2))


def has_labels(split: Split) -> bool:
    """Is the network told a label?"""
    return split.take(torch.arange(1)).y is not None


def distribution(data: Dataset, split: Split) -> tuple[Tensor, ...] | None:
    """The data's, where it is known; of a split with labels only one that tells them too.

    An optimum that is not told the label would lose more than a network that is.
    """
    known = data.distribution()
    return None if known is None or (has_labels(split) and len(known) < 3) else known


def variance(values: Tensor, example: Tensor) -> float:
    """Of the sum of the C means of ``values`` [C, L], where looks at one ``example`` [C, L] repeat.

        n/(n - 1)  sum over examples i of [ sum over looks k at i of (v_k - mean of its cell)/L ]^2

    n/(n - 1) puts back what the means take away: as many examples as a cell can have. Infinite for
    one example, which says nothing of others.
    """
    residual = (values - values.mean(1, keepdim=True)) / values.shape[1]
    which = example.unique(return_inverse=True)[1]
    each = torch.bincount(which.flatten(), residual.flatten())  # [examples]
    n = min(len(each), values.shape[1])
    return float(each.square().sum()) * n / (n - 1) if n > 1 else math.inf

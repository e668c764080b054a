"""How near are samples to the training examples? A guard against memorisation.

The distance of two examples is the root mean square difference of their values, scaled to 0 .. 1:

    d(a, b) = sqrt( mean over dims of ((a - b) / (V - 1))^2 )

A model that copies has samples nearer to train than unseen real examples are. So the same
measurements are told of the test split: the floor. ``neighbours_copied`` is the share of samples
nearer to train than all but the nearest hundredth of the test examples (whose own share is
therefore about 0.01).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs
import torch
from elbowroom import DataSpec, Display, Measurement, Metric, Split, Subject
from torch import Tensor

from .kept import of_real_data

_SHARE = 0.01
_EXACT_FLOAT32 = 2**24  # integers up to here
_KEPT = 2**26  # values of the train split that are kept at hand; more are read each time


@attrs.define(eq=False)
class Neighbours(Metric):
    """Distances of samples to their nearest training examples, beside those of test examples."""

    usual: ClassVar[int | None] = 50
    display: ClassVar[Mapping[str, Display]] = {
        "neighbours_mean": Display("distance to train", "report", ranked=False),
        "neighbours_least": Display("least distance to train", "detail", ranked=False),
        "neighbours_copied": Display("copied", ranked=False),
    }

    _train: Train = attrs.field(init=False, repr=False)
    _near: float = attrs.field(init=False, default=0.0, repr=False)
    _floor: tuple[float, float, float] = attrs.field(init=False, default=(0, 0, 0), repr=False)
    _sums: Tensor = attrs.field(init=False, repr=False)  # count, distances, squares, copied
    _least: float = attrs.field(init=False, default=math.inf, repr=False)

    def suits(self, data: DataSpec) -> bool:
        return not data.parts  # tables have ``nearest``

    def prepare(self, subject: Subject) -> None:
        self._train = Train(
            subject.data.split("train"), subject.data.spec.levels, subject.batch_size
        )
        pixels = ("", "")  # looked at as they are
        real = of_real_data(subject, __file__, pixels, (), lambda: self._real(subject))["distances"]
        self._near = float(real.quantile(_SHARE))
        copied = float((real < self._near).double().mean())
        self._floor = (float(real.mean()), float(real.min()), copied)
        self._sums, self._least = torch.zeros(4, dtype=torch.float64), math.inf

    def _real(self, subject: Subject) -> dict[str, Tensor]:
        """How far each test example is from train."""
        batches = subject.data.split("test").batches(subject.batch_size)
        return {"distances": torch.cat([self._train.distance(batch.x) for batch in batches])}

    def update(self, samples: Tensor, labels: Tensor | None) -> None:
        d = self._train.distance(samples.cpu())
        one = torch.ones_like(d)
        self._sums += torch.stack((one, d, d**2, (d < self._near).double())).sum(1)
        self._least = min(self._least, float(d.min()))

    def state(self) -> dict[str, Tensor]:
        return {"sums": self._sums, "least": torch.tensor(self._least, dtype=torch.float64)}

    def merge(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        self._sums = torch.stack([state["sums"] for state in states]).sum(0)
        self._least = min(float(state["least"]) for state in states)

    def compute(self) -> dict[str, Measurement]:
        count, total, squares, copied = self._sums.tolist()
        mean, share = total / count, copied / count
        deviation = math.sqrt(max(squares / count - mean**2, 0))
        of = {"against": f"{len(self._train.split)} train examples", "distance": "rms, 0 to 1"}
        nearer = {**of, "nearer_than": self._near}
        error = math.sqrt(share * (1 - share) / count)
        return {
            "neighbours_mean": Measurement(
                mean, deviation / math.sqrt(count), None, self._floor[0], of
            ),
            "neighbours_least": Measurement(self._least, None, None, self._floor[1], of),
            "neighbours_copied": Measurement(share, error, "lower", self._floor[2], nearer),
        }


class Train:
    """The training examples, as something to be near to.

    Squared distances of integers are integers: as |a|^2 - 2ab + |b|^2 they are exact wherever the
    type holds every integer up to twice the largest, so a copy has distance zero.
    """

    def __init__(self, split: Split, levels: int, batch_size: int) -> None:
        self.split, self._top, self._size = split, levels - 1, batch_size
        count = split.take(torch.arange(1)).x.numel()
        largest = 2 * self._top**2 * count
        self._dtype = torch.float32 if largest < _EXACT_FLOAT32 else torch.float64
        self._kept: list[tuple[Tensor, Tensor]] | None = None
        if len(split) * count <= _KEPT:
            self._kept = [self._known(batch.x) for batch in split.batches(4096)]

    def _rows(self, x: Tensor) -> Tensor:
        return x.flatten(1).to(self._dtype)

    def _known(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Training examples [N, D], and their |b|^2."""
        rows = self._rows(x)
        return rows, (rows**2).sum(1)

    def distance(self, x: Tensor) -> Tensor:
        """[B] float64: how far each of the integers [B, *shape] is from the nearest of them."""
        rows = self._rows(x)
        nearest = torch.full((len(rows),), torch.inf, dtype=self._dtype)
        known = self._kept or (self._known(b.x) for b in self.split.batches(self._size))
        for part, squares in known:
            apart = torch.addmm(squares, rows, part.T, alpha=-2)  # |b|^2 - 2ab
            nearest = torch.minimum(nearest, apart.min(1).values)
        squared = (nearest + (rows**2).sum(1)).double()
        return (squared / rows.shape[1]).sqrt() / self._top

"""FID: the Fréchet distance between two normals fitted to features (Heusel et al. 2017).

    FID = |m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2))

Against the train *and* the test split: a model that memorises comes near to train and not to test.
The floor is the FID between these two splits; it is not zero since both are finite (and n samples
have a bias of their own: compare equal n only). With a ``reference`` file it is against that alone,
and the floor is that of the test split.

The features may be of any network, so this is also the Fréchet distance (FD) of others' features.

The standard error is that of other samples with the same reference, by leaving out one of
``_GROUPS`` random groups at a time (``groups.py``): sums are kept for each group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import attrs
import torch
from elbowroom import Display, Measurement, Metric, Subject
from torch import Tensor

from . import moments
from .features import Eye, FeatureSpec, eye
from .groups import jackknife_error, random_groups
from .kept import code_digest, of_real_data
from .moments import Moments, Sums, frechet
from .reference import Reference

SPLITS = ("train", "test")
_GROUPS = 16


@attrs.define(eq=False)
class FID(Metric):
    """FID against train and against test, or against a reference file."""

    usual: ClassVar[int | None] = 20
    display: ClassVar[Mapping[str, Display]] = {
        "fid_train": Display("FID train"),
        "fid_test": Display("FID test"),
        "fid_reference": Display("FID"),
    }
    name: ClassVar[str] = "fid"
    kind: ClassVar[str] = ""  # which moments of a reference file

    features: FeatureSpec = "classifier"
    reference: str | None = None  # a file of statistics or pictures in ADM's form

    _eye: Eye = attrs.field(init=False, repr=False)
    _against: dict[str, Moments] = attrs.field(init=False, factory=dict, repr=False)
    _of: dict[str, Mapping[str, Any]] = attrs.field(init=False, factory=dict, repr=False)
    _floor: float = attrs.field(init=False, default=0.0, repr=False)
    _sums: list[Sums] = attrs.field(init=False, factory=list, repr=False)  # of each group
    _next: int = attrs.field(init=False, default=0, repr=False)  # number of the next sample

    def look(self, x: Tensor) -> Tensor:
        """[B, F] what is compared of integers [B, H, W, C]."""
        return self._eye(x).vectors

    def prepare(self, subject: Subject) -> None:
        self._eye = eye(self.features, subject)
        given = None if self.reference is None else Reference.read(self.reference)
        if given is None:
            counts = {split: len(subject.data.split(split)) for split in SPLITS}
            self._of = {split: {"against": f"{n} {split} examples"} for split, n in counts.items()}
        else:
            self._of = {"reference": given.protocol()}
        sums = code_digest(moments.__file__)
        settings = (self.name, sums, None if given is None else given.digest)
        identity = self._eye.network.identity
        real = of_real_data(
            subject, __file__, identity, settings, lambda: self._real(subject, given)
        )
        self._floor = float(real["floor"])
        self._against = {
            name: Moments(real[f"{name} mean"], real[f"{name} covariance"]) for name in self._of
        }
        size = len(next(iter(self._against.values())).mean)
        self._sums, self._next = [Sums(size) for _ in range(_GROUPS)], 0

    def _real(self, subject: Subject, given: Reference | None) -> dict[str, Tensor]:
        """The moments of each reference, and the distance of the test split from the first."""
        if given is None:
            against = {split: self._split(split, subject) for split in SPLITS}
            floor = frechet(against["train"], against["test"])
        else:
            against = {"reference": self._given(given, subject)}
            floor = frechet(against["reference"], self._split("test", subject))
        found = {"floor": torch.tensor(floor, dtype=torch.float64)}
        for name, one in against.items():
            found |= {f"{name} mean": one.mean, f"{name} covariance": one.covariance}
        return found

    def _split(self, split: str, subject: Subject) -> Moments:
        batches = subject.data.split(split).batches(subject.batch_size)
        return Sums.over(self.look(batch.x) for batch in batches).moments()

    def _given(self, given: Reference, subject: Subject) -> Moments:
        """The moments a file states, or those of the pictures in it."""
        if self.kind in given.moments or not given.has_images:
            one = subject.data.split("train").take(torch.arange(1)).x
            return given.stated(self._eye.network, self.look(one).shape[1], self.kind)
        shown = given.batches(subject.data.spec, subject.batch_size)
        return Sums.over(map(self.look, shown)).moments()

    def update(self, samples: Tensor, labels: Tensor | None) -> None:
        vectors = self.look(samples)
        group = random_groups(self._next, len(vectors), _GROUPS)
        for g in group.unique().tolist():
            self._sums[g].update(vectors[group == g])
        self._next += len(vectors)

    def skip(self, count: int) -> None:
        self._next += count

    def state(self) -> dict[str, Tensor]:
        groups = [sums.state() for sums in self._sums]
        return {key: torch.stack([one[key] for one in groups]) for key in groups[0]}

    def merge(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        for g, sums in enumerate(self._sums):
            sums.merge([{key: value[g] for key, value in state.items()} for state in states])

    def compute(self) -> dict[str, Measurement]:
        whole = Sums(0)
        whole.merge([sums.state() for sums in self._sums])
        samples, parts = whole.moments(), [sums for sums in self._sums if sums.count]
        rest = [whole - part for part in parts]
        enough = len(parts) > 1 and min(one.count for one in rest) > 1
        without = [one.moments() for one in rest] if enough else []
        counts = [part.count for part in parts]
        return {
            f"{self.name}_{name}": Measurement(
                frechet(one, samples),
                jackknife_error([frechet(one, m) for m in without], counts) if enough else None,
                better="lower",
                floor=self._floor,
                of={**self._of[name], **self._eye.network.protocol()},
            )
            for name, one in self._against.items()
        }

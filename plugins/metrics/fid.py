"""FID: the Fréchet distance between two normals fitted to features (Heusel et al. 2017).

    FID = |m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2))

Against the train *and* the test split: a model that memorises comes near to train and not to test.
The floor is the FID between these two splits; it is not zero since both are finite (and n samples
have a bias of their own: compare equal n only). With a ``reference`` file it is against that alone,
and the floor is that of the test split.

The features may be of any network, so this is also the Fréchet distance (FD) of others' features.
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
from .kept import code_digest, of_real_data
from .moments import Moments, Sums, frechet
from .reference import Reference

SPLITS = ("train", "test")


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
    _sums: Sums = attrs.field(init=False, repr=False)  # of the samples

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
        self._sums = Sums(len(next(iter(self._against.values())).mean))

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
        if self.kind in given.moments or given.pictures is None:
            one = subject.data.split("train").take(torch.arange(1)).x
            return given.stated(self._eye.network, self.look(one).shape[1], self.kind)
        shown = given.batches(subject.data.spec, subject.batch_size)
        return Sums.over(map(self.look, shown)).moments()

    def update(self, samples: Tensor, labels: Tensor | None) -> None:
        self._sums.update(self.look(samples))

    def state(self) -> dict[str, Tensor]:
        return self._sums.state()

    def merge(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        self._sums.merge(states)

    def compute(self) -> dict[str, Measurement]:
        samples = self._sums.moments()
        return {
            f"{self.name}_{name}": Measurement(
                frechet(one, samples),
                better="lower",
                floor=self._floor,
                of={**self._of[name], **self._eye.network.protocol()},
            )
            for name, one in self._against.items()
        }

"""FID: the Fréchet distance between two normals fitted to features (Heusel et al. 2017).

    FID = |m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2))

The sums are torchmetrics', in float64. Against the train *and* the test split: a model that
memorises comes near to train and not to test. The floor is the FID between these two splits; it is
not zero since both are finite (and n samples have a bias of their own: compare equal n only).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
import torch
from elbowroom import Display, Figure, Metric, Subject
from torch import Tensor, nn

from .features import Eye, eye
from .kept import of_real_data

SPLITS = ("train", "test")


class _Seen(nn.Module):
    """Stands where torchmetrics has a feature network: features were looked at already."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.num_features = size

    def forward(self, features: Tensor) -> Tensor:
        return features


@attrs.define(eq=False)
class FID(Metric):
    """FID against train and against test."""

    usual: ClassVar[int | None] = 20
    display: ClassVar[Mapping[str, Display]] = {
        "fid_train": Display("FID train"),
        "fid_test": Display("FID test"),
    }

    features: str = "classifier"

    _eye: Eye = attrs.field(init=False, repr=False)
    _against: dict[str, Any] = attrs.field(init=False, factory=dict, repr=False)
    _floor: float = attrs.field(init=False, default=0.0, repr=False)
    _counts: dict[str, int] = attrs.field(init=False, factory=dict, repr=False)

    def prepare(self, subject: Subject) -> None:
        self._eye = eye(self.features, subject)
        self._counts = {split: len(subject.data.split(split)) for split in SPLITS}
        real = of_real_data(
            subject, __file__, self._eye.network.identity, (), lambda: self._sums(subject)
        )
        self._against = {split: distance(len(real[f"{split} sum"])) for split in SPLITS}
        floor = distance(len(real["train sum"]))
        for split, one in self._against.items():
            _set_sums(one, "real", real, split)
            _set_sums(floor, "real" if split == "train" else "fake", real, split)
        self._floor = float(floor.compute())

    def _sums(self, subject: Subject) -> dict[str, Tensor]:
        """torchmetrics' sums over each split."""
        sums = {}
        for split in SPLITS:
            one: Any = None
            for seen in self._eye.over(split, subject.data, subject.batch_size):
                one = one or distance(seen.vectors.shape[1])
                one.update(seen.vectors, real=True)
            assert one is not None, "a data set has examples"
            sums[f"{split} sum"] = one.real_features_sum
            sums[f"{split} products"] = one.real_features_cov_sum
            sums[f"{split} count"] = one.real_features_num_samples
        return sums

    def update(self, samples: Tensor, labels: Tensor | None) -> None:
        vectors = self._eye(samples).vectors
        for one in self._against.values():
            one.update(vectors, real=False)

    def compute(self) -> dict[str, Figure]:
        return {
            f"fid_{split}": Figure(
                float(one.compute()),
                better="lower",
                floor=self._floor,
                of={
                    "against": f"{self._counts[split]} {split} examples",
                    **self._eye.network.protocol(),
                },
            )
            for split, one in self._against.items()
        }


def _set_sums(one: Any, kind: str, sums: dict[str, Tensor], split: str) -> None:
    """Let torchmetrics' FID go on from sums, as its ``update`` would leave it."""
    setattr(one, f"{kind}_features_sum", sums[f"{split} sum"])
    setattr(one, f"{kind}_features_cov_sum", sums[f"{split} products"])
    setattr(one, f"{kind}_features_num_samples", sums[f"{split} count"])
    one.orig_dtype = torch.float64
    one._update_count += 1


def distance(size: int) -> Any:
    """torchmetrics' FID over vectors [B, size] that are features already."""
    from torchmetrics.image.fid import FrechetInceptionDistance

    made = FrechetInceptionDistance(_Seen(size))
    made.compute_with_cache = False  # more samples may come
    return made.to(torch.device("cpu"))

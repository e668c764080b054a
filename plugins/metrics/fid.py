"""FID: the Fréchet distance between two normals fitted to features (Heusel et al. 2017).

    FID = |m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2))

The sums are torchmetrics', in float64. Against the train *and* the test split: a model that
memorises comes near to train and not to test. The floor is the FID between these two splits; it is
not zero since both are finite (and n samples have a bias of their own: compare equal n only).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, ClassVar

import attrs
import torch
from elbowroom import Display, Measurement, Metric, Subject
from torch import Tensor, nn

from .features import Eye, FeatureSpec, eye
from .kept import of_real_data

SPLITS = ("train", "test")
_SUMS = tuple(f"fake_features_{what}" for what in ("sum", "cov_sum", "num_samples"))


class Seen(nn.Module):
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

    features: FeatureSpec = "classifier"

    _eye: Eye = attrs.field(init=False, repr=False)
    _against: dict[str, Any] = attrs.field(init=False, factory=dict, repr=False)
    _floor: float = attrs.field(init=False, default=0.0, repr=False)
    _counts: dict[str, int] = attrs.field(init=False, factory=dict, repr=False)

    def prepare(self, subject: Subject) -> None:
        self._eye = eye(self.features, subject)
        self._counts = {split: len(subject.data.split(split)) for split in SPLITS}
        library = version("torchmetrics")  # its sums are kept
        identity = self._eye.network.identity
        real = of_real_data(subject, __file__, identity, (library,), lambda: self._real(subject))
        self._floor = float(real["floor"])
        self._against = {split: distance(int(real["size"])) for split in SPLITS}
        for split, one in self._against.items():
            mine = {key: value for key, value in real.items() if key.startswith(f"{split} ")}
            sums = {key.removeprefix(f"{split} "): value for key, value in mine.items()}
            one.load_state_dict(sums, strict=False)

    def _real(self, subject: Subject) -> dict[str, Tensor]:
        """torchmetrics' sums over each split, and the distance between the two."""
        size = self._eye.size(subject.data)
        between, found = distance(size), {"size": torch.tensor(size)}
        for split in SPLITS:
            one = distance(size)
            for seen in self._eye.over(split, subject.data, subject.batch_size):
                one.update(seen.vectors, real=True)
                between.update(seen.vectors, real=split == "train")
            sums = {key: value for key, value in one.state_dict().items() if value.any()}
            found |= {f"{split} {key}": value for key, value in sums.items()}
        return {**found, "floor": between.compute()}

    def update(self, samples: Tensor, labels: Tensor | None) -> None:
        vectors = self._eye(samples).vectors
        for one in self._against.values():
            one.update(vectors, real=False)

    def state(self) -> dict[str, Tensor]:
        one = next(iter(self._against.values()))  # the samples' sums are the same in each
        return {name: getattr(one, name).clone() for name in _SUMS}

    def merge(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        for one in self._against.values():
            if not one.update_called:  # torchmetrics asks for one: of no samples
                one.update(
                    one.fake_features_sum.new_empty(0, len(one.fake_features_sum)), real=False
                )
            for name in _SUMS:
                setattr(one, name, torch.stack([state[name] for state in states]).sum(0))

    def compute(self) -> dict[str, Measurement]:
        return {
            f"fid_{split}": Measurement(
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


def distance(size: int) -> Any:
    """torchmetrics' FID over vectors [B, size] that are features already."""
    from torchmetrics.image.fid import FrechetInceptionDistance

    made = FrechetInceptionDistance(
        Seen(size),
        compute_with_cache=False,  # more samples may come
        sync_on_compute=False,  # ranks are merged by us
    )
    made.persistent(mode=True)  # its sums are part of its state_dict
    return made.to(torch.device("cpu"))

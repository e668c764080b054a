"""A feature network in use: named, made, and looked through by several metrics at once.

classifier                                  a name
inception:FILE@SHA256, dinov2:FOLDER        a name, and its first option
./my.py:Network, package.module:Network     a class by reference
{name: mine, width: 8}                      any of these with options
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import torch
from elbowroom import Dataset, IncompatibleError, installed, named_component
from elbowroom.config import options_of, parse_spec
from elbowroom.plugins.evaluation.feature_network import FeatureNetwork, weights_digest
from elbowroom.plugins.evaluation.metric import Subject
from elbowroom.randomness import random_subset
from torch import Tensor

__all__ = ["Eye", "FeatureNetwork", "FeatureSpec", "Features", "compact", "eye", "weights_digest"]

_SEED = 0  # of the examples a large split is thinned to

FeatureSpec = str | Mapping[str, Any]
"""How a config names a feature network."""


@attrs.frozen(eq=False)
class Features:
    """What a network says of a batch of pictures."""

    vectors: Tensor  # [B, F] float64
    logits: Tensor | None  # [B, K] float64


class Eye:
    """A feature network in use: metrics that share one look at each batch only once."""

    def __init__(self, network: FeatureNetwork, device: torch.device | str) -> None:
        self.network = network.to(device).eval()
        self._device = device
        self._last: tuple[Tensor, Features] | None = None

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Features:
        """The features of integers [B, H, W, C]."""
        if self._last is None or self._last[0] is not x:
            vectors, logits = self.network(x.to(self._device))
            told = None if logits is None else logits.double().cpu()
            self._last = (x, Features(vectors.double().cpu(), told))
        return self._last[1]

    @torch.no_grad()
    def spatial(self, x: Tensor) -> Tensor:
        """[B, S] float64: the features of places in the pictures."""
        said = self.network.spatial(x.to(self._device))
        if said is None:
            raise IncompatibleError(
                f"sfid: the feature network {self.network.name} gives no spatial features, as "
                "classifier does"
            )
        return said.double().cpu()

    def size(self, data: Dataset) -> int:
        """F: how many features a picture has."""
        return self(data.split("train").take(torch.arange(1)).x).vectors.shape[1]

    def over(self, split: str, data: Dataset, batch_size: int) -> Iterator[Features]:
        """The features of a whole split, batch by batch."""
        for batch in data.split(split).batches(batch_size):
            yield self(batch.x)

    def some(self, split: str, subject: Subject, limit: int) -> Tensor:
        """[N, F] features of a split, or of a random part where it is larger than the limit."""
        part = subject.data.split(split)
        rows = random_subset(limit, len(part), _SEED)
        looked = [self(part.take(few).x).vectors.clone() for few in rows.split(subject.batch_size)]
        return compact(torch.cat(looked))


def compact(x: Tensor) -> Tensor:
    """The same numbers in half the room, where they came in single precision."""
    single = x.float()
    return single if torch.equal(single.double(), x) else x


def eye(features: FeatureSpec, subject: Subject) -> Eye:
    """The feature network called ``features``, shared by all metrics of the subject."""
    return subject.once(
        ("eye", str(features)), lambda: Eye(_made(features, subject), subject.device)
    )


def _made(features: FeatureSpec, subject: Subject) -> FeatureNetwork:
    spec = named_component("feature_network", _spelled(features), path="features")
    network: FeatureNetwork = spec.build(subject.data)
    network.prepare(subject)
    return network


def _spelled(features: FeatureSpec) -> FeatureSpec:
    """The whole form of ``inception:FILE``: a registered name, and its first option."""
    if not isinstance(features, str):
        return features
    if features.lstrip().startswith("{"):
        parsed: FeatureSpec = parse_spec(features)
        return parsed
    name, colon, value = features.partition(":")
    found = installed().components("feature_network").get(name) if colon else None
    if found is None or not (options := options_of(found.load())):
        return features
    return {"name": name, next(iter(options)): value}

"""Feature networks: what FID, KID and IS see of a picture.

    pictures, integers [B, H, W, C]  ->  vectors [B, F], and logits [B, K] where there are classes

A network of one's own derives from :class:`FeatureNetwork` and is named ``./my.py:Network``; it is
made with the data set it will look at. Figures state its ``name``, the ``digest`` of its weights
and what it says ``about`` itself: two figures are comparable only if all of these agree.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import torch
from elbowroom import Dataset, ElbowroomError, Subject, find_reference, is_reference
from torch import Tensor, nn

from .kept import digest_of


@attrs.frozen(eq=False)
class Features:
    """What a network says of a batch of pictures."""

    vectors: Tensor  # [B, F] float64
    logits: Tensor | None  # [B, K] float64


class FeatureNetwork(nn.Module, ABC):
    """A fixed network that describes pictures of one data set."""

    name: str
    digest: str  # sha256 of the weights
    code: str | None = None  # sha256 of all code that turns pictures into features, where known

    @property
    def about(self) -> Mapping[str, Any]:
        """What else a figure must say of it, such as its accuracy."""
        return {}

    @abstractmethod
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Integers [B, H, W, C] -> vectors [B, F] and logits [B, K], or None for these."""

    @property
    def identity(self) -> tuple[str, str] | None:
        """Code and weights; None: not known, so nothing it says may be kept."""
        return None if self.code is None else (self.code, self.digest)

    def protocol(self) -> dict[str, Any]:
        """What a figure says of it."""
        return {"features": self.name, "features_sha256": self.digest[:16], **self.about}


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

    def size(self, data: Dataset) -> int:
        """F: how many features a picture has."""
        return self(data.split("train").take(torch.arange(1)).x).vectors.shape[1]

    def over(self, split: str, data: Dataset, batch_size: int) -> Iterator[Features]:
        """The features of a whole split, batch by batch."""
        for batch in data.split(split).batches(batch_size):
            yield self(batch.x)


def eye(features: str, subject: Subject) -> Eye:
    """The feature network called ``features``, shared by all metrics of the subject."""
    return subject.once(("eye", features), lambda: Eye(_made(features, subject), subject.device))


def _made(features: str, subject: Subject) -> FeatureNetwork:
    name, _, rest = features.partition(":")
    if name in NETWORKS and not (rest and name == "classifier"):
        return NETWORKS[name](subject, rest or None)
    if is_reference(features):
        found = find_reference("feature network", features, Path.cwd()).load()
        if not issubclass(found, FeatureNetwork):
            raise ElbowroomError(
                f"features: {features} does not derive from {__name__}:FeatureNetwork"
            )
        own: FeatureNetwork = found(subject.data)
        return own
    raise ElbowroomError(
        f"features: no feature network {features!r}: choose {', '.join(NETWORKS)}, "
        "inception:FILE, or a reference like ./my.py:Network"
    )


def _classifier(subject: Subject, _: str | None) -> FeatureNetwork:
    from .classifier import classifier

    return classifier(subject.data, digest_of(subject))


def _inception(subject: Subject, path: str | None) -> FeatureNetwork:
    from .inception import inception

    return inception(subject.data, path)


NETWORKS: Mapping[str, Callable[[Subject, str | None], FeatureNetwork]] = {
    "classifier": _classifier,
    "inception": _inception,
}
"""Built-in feature networks: name -> how to make one for a subject."""


def weights_digest(network: nn.Module) -> str:
    """sha256 over names, shapes and values of all weights, the same on every machine."""
    total = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        total.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        total.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()

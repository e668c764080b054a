"""Feature networks: the features of images that FID, KID and IS compare.

    f: images, integers 0 .. levels - 1 [B, H, W, C]  ->  vectors [B, F], and logits [B, K]

FID fits a normal distribution to the vectors of each set of images, KID is a kernel mean
discrepancy of vectors, IS the confidence and diversity of softmax(logits). Their values depend on f
as much as on the samples: a measurement records the ``name`` of f, the ``digest`` of its weights
and ``about``, and two measurements are comparable only if all of these agree.

f is deterministic: its output for an image depends neither on the other images of the batch nor on
a random generator. It is built with the data set, and may raise an IncompatibleError for its shape.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

if TYPE_CHECKING:
    from .metric import Subject


class FeatureNetwork(nn.Module, ABC):
    """A fixed network of image features; built with a Dataset ``data`` and its options."""

    name: str
    digest: str  # sha256 of the weights
    code: str | None = None  # sha256 of the code that computes features, if known

    def prepare(self, subject: Subject) -> None:  # most need nothing
        """Prepare for a subject, e.g. train on its data. Called once, before use."""

    @abstractmethod
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return vectors [B, F], and logits [B, K] or None, of integers x [B, H, W, C]."""

    def spatial(self, x: Tensor) -> Tensor | None:
        """Return spatial features [B, S] of integers x [B, H, W, C]; None if there are none."""
        return None

    @property
    def about(self) -> Mapping[str, Any]:
        """Further properties that a measurement records, like its accuracy."""
        return {}

    @property
    def identity(self) -> tuple[str, str] | None:
        """Digests of code and weights; None if unknown: its features are then not cached."""
        return None if self.code is None else (self.code, self.digest)

    def protocol(self) -> dict[str, Any]:
        """The fields that a measurement records of it."""
        return {"features": self.name, "features_sha256": self.digest[:16], **self.about}


def weights_digest(network: nn.Module) -> str:
    """sha256 over names, shapes and values of all weights, the same on every machine."""
    total = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        total.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        total.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()

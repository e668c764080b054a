"""Feature networks: what FID, KID and IS see of a picture.

    f: pictures, integers 0 .. levels - 1 [B, H, W, C]  ->  vectors [B, F], and logits [B, K]

Pixels say little of how alike two sets of pictures are, so metrics compare what a fixed network
says of them: FID fits a normal to the vectors of each set, KID takes a kernel's mean discrepancy
over vectors, IS asks how sure and how varied softmax(logits) is. A measurement is thus as much one
of f as of the samples: it states f's ``name``, the ``digest`` of its weights and what f says
``about`` itself, and two measurements are comparable only if all of these agree.

f is fixed: what it says of a picture depends neither on the other pictures of the batch nor on any
generator. It is made with the data set it will look at, whose form it may refuse with an
IncompatibleError.
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
    """A fixed network that describes pictures; built with a Dataset ``data``, then its options."""

    name: str
    digest: str  # sha256 of the weights
    code: str | None = None  # sha256 of all code that turns pictures into features, where known

    def prepare(self, subject: Subject) -> None:  # most need nothing
        """Get ready for what will be evaluated: learn its data, say. Called once, before use."""

    @abstractmethod
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Integers [B, H, W, C] -> vectors [B, F] and logits [B, K], or None for these."""

    def spatial(self, x: Tensor) -> Tensor | None:
        """Integers [B, H, W, C] -> features [B, S] of places in the picture; None: it has none."""
        return None

    @property
    def about(self) -> Mapping[str, Any]:
        """What else a measurement must say of it, such as its accuracy."""
        return {}

    @property
    def identity(self) -> tuple[str, str] | None:
        """Code and weights; None: not known, so nothing it says may be kept between runs."""
        return None if self.code is None else (self.code, self.digest)

    def protocol(self) -> dict[str, Any]:
        """What a measurement says of it."""
        return {"features": self.name, "features_sha256": self.digest[:16], **self.about}


def weights_digest(network: nn.Module) -> str:
    """sha256 over names, shapes and values of all weights, the same on every machine."""
    total = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        total.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        total.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()

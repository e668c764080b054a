"""The two ends of a network, as its signature has them.

In: an element of z is one of ``in_states`` states, and a row of an embedding that all channels
share; or a real number, and itself. Out: ``out_states`` logits for an element, or a number.
"""

from __future__ import annotations

from elbowroom import IncompatibleError, Signature
from torch import Tensor, nn

from .layers import Embedding


class Values(nn.Module):
    """z [B, *D] -> [B, *D, features] floats; channels of an image are merged into the features."""

    def __init__(self, signature: Signature, embedding: int) -> None:
        super().__init__()
        self.signature = signature
        states = signature.in_states
        self.embedding = None if states is None else Embedding(states, embedding)
        per_element = 1 if states is None else embedding
        self.features = elements(signature) * per_element

    def forward(self, z: Tensor) -> Tensor:
        if z.shape[1:] != self.signature.shape:
            raise ValueError(
                f"z is {list(z.shape)}; this network was built for [B, "
                f"{', '.join(map(str, self.signature.shape))}]"
            )
        values: Tensor = z.unsqueeze(-1) if self.embedding is None else self.embedding(z)
        return values.flatten(-2) if len(self.signature.shape) == 3 else values


def elements(signature: Signature) -> int:
    """How many elements stand at one place: the channels of an image, one in a sequence."""
    return signature.shape[2] if len(signature.shape) == 3 else 1


def out_features(signature: Signature) -> int:
    """How many numbers the network says at one place."""
    return elements(signature) * (signature.out_states or 1)


def out_shape(signature: Signature) -> tuple[int, ...]:
    """The shape of what the network says about one sample."""
    states = () if signature.out_states is None else (signature.out_states,)
    return signature.shape + states


def patch_grid(name: str, signature: Signature, patch: int) -> tuple[int, ...]:
    """The grid of patches, or an error that says which patches would do."""
    sides = signature.shape[:2] if len(signature.shape) == 3 else signature.shape
    if patch < 1 or any(side % patch for side in sides):
        fitting = [p for p in range(1, min(sides) + 1) if not any(side % p for side in sides)]
        raise IncompatibleError(
            f"{name}: data of size {' x '.join(map(str, sides))} does not divide into patches of "
            f"{patch}; 'patch' may be {', '.join(map(str, fitting))}"
        )
    return tuple(side // patch for side in sides)

"""The input and output layers of a network, by its signature.

In: an element of z is one of ``in_states`` states, embedded by a table shared by all channels, or
a real number. Out: ``out_states`` logits per element, or one number.

Where positions have their own numbers of values (``Signature.sizes``, the columns of a table), a
value means something else at each of them: every position has its own embedding of its values and
its own last matrix.
"""

from __future__ import annotations

from itertools import accumulate

import torch
from elbowroom import IncompatibleError, Signature
from torch import Tensor, nn

from .layers import Embedding, init_normal_

_FREQUENCIES = 8  # of lambda, from 1/32 to 4 radians per unit


class Values(nn.Module):
    """z [B, *D] -> [B, *D, features] floats; channels of an image are merged into the features."""

    def __init__(self, signature: Signature, embedding: int) -> None:
        super().__init__()
        self.signature = signature
        states = signature.in_states
        self.embedding: nn.Module | None = None
        if signature.sizes is not None:
            of = NumberByPosition if states is None else EmbeddingByPosition
            self.embedding = of(signature.sizes, signature.shape, embedding)
        elif states is not None:
            self.embedding = Embedding(states, embedding)
        per_element = 1 if self.embedding is None else embedding
        if signature.level_per_position:
            per_element += 2 * _FREQUENCIES
        self.features = elements(signature) * per_element

    def forward(self, z: Tensor, log_snr: Tensor | None = None) -> Tensor:
        if z.shape[1:] != self.signature.shape:
            raise ValueError(
                f"z has shape {list(z.shape)}, but the network was built for [B, "
                f"{', '.join(map(str, self.signature.shape))}]"
            )
        values: Tensor = z.unsqueeze(-1) if self.embedding is None else self.embedding(z)
        if self.signature.level_per_position:
            values = torch.cat([values, level_features(z, log_snr).to(values)], -1)
        return values.flatten(-2) if len(self.signature.shape) == 3 else values


class EmbeddingByPosition(nn.Module):
    """States [B, *D] -> [B, *D, features]; position n has a row for each value, and a last one.

    A state beyond the last value, such as the mask, is the last row.
    """

    first: Tensor
    last: Tensor

    def __init__(self, sizes: tuple[int, ...], shape: tuple[int, ...], features: int) -> None:
        super().__init__()
        self.sizes, self.shape = sizes, shape
        self.table = Embedding(sum(sizes) + len(sizes), features)
        for name in ("first", "last"):
            self.register_buffer(name, torch.empty(shape, dtype=torch.int64), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Compute the rows of each position."""
        first = [0, *accumulate(size + 1 for size in self.sizes)][:-1]
        self.first.copy_(torch.tensor(first, device="cpu").view(self.shape))
        self.last.copy_(torch.tensor(self.sizes, device="cpu").view(self.shape))

    def forward(self, z: Tensor) -> Tensor:
        out: Tensor = self.table(self.first + torch.minimum(z, self.last))
        return out


class NumberByPosition(nn.Module):
    """Numbers z [B, *D] -> z weight + bias [B, *D, features], each position with its own."""

    def __init__(self, sizes: tuple[int, ...], shape: tuple[int, ...], features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(*shape, features))
        self.bias = nn.Parameter(torch.empty(*shape, features))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise."""
        init_normal_(self.weight, 1.0)
        nn.init.zeros_(self.bias)

    def forward(self, z: Tensor) -> Tensor:
        return torch.addcmul(self.bias, z.unsqueeze(-1), self.weight)


class LinearByPosition(nn.Module):
    """x [B, N, in] -> [B, N, out], each of the N positions with its own matrix, zero at first."""

    def __init__(self, count: int, in_features: int, out_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, in_features, out_features))
        self.bias = nn.Parameter(torch.empty(count, 1, out_features))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise."""
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.weight.to(x.dtype), self.bias.to(x.dtype)
        return torch.baddbmm(bias, x.transpose(0, 1), weight).transpose(0, 1)


def level_features(z: Tensor, log_snr: Tensor | None) -> Tensor:
    """[B, *D, features] of the level of each element; one level per example is repeated."""
    if log_snr is None:
        raise ValueError("this network needs the level of each position, but log_snr is None")
    if log_snr.ndim == 1:
        log_snr = log_snr.view(-1, *(1,) * (z.ndim - 1)).expand(z.shape)
    rates = torch.logspace(-5, 2, _FREQUENCIES, base=2, device=z.device)
    angle = log_snr.to(rates.dtype).unsqueeze(-1) * rates
    return torch.cat([angle.sin(), angle.cos()], -1)


def elements(signature: Signature) -> int:
    """The number of elements at one position: the channels of an image, one in a sequence."""
    return signature.shape[2] if len(signature.shape) == 3 else 1


def out_features(signature: Signature) -> int:
    """The number of outputs at one position."""
    return elements(signature) * (signature.out_states or 1)


def out_shape(signature: Signature) -> tuple[int, ...]:
    """The shape of the output for one sample."""
    states = () if signature.out_states is None else (signature.out_states,)
    return signature.shape + states


def patch_grid(name: str, signature: Signature, patch: int) -> tuple[int, ...]:
    """The number of patches along each axis."""
    sides = signature.shape[:2] if len(signature.shape) == 3 else signature.shape
    if patch < 1 or any(side % patch for side in sides):
        fitting = [p for p in range(1, min(sides) + 1) if not any(side % p for side in sides)]
        raise IncompatibleError(
            f"{name}: data of size {' x '.join(map(str, sides))} does not divide into patches of "
            f"{patch}; 'patch' may be {', '.join(map(str, fitting))}"
        )
    return tuple(side // patch for side in sides)

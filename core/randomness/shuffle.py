"""The order of training examples: a keyed permutation instead of a shuffled list.

Training example number g = step * total + position (counted over the whole run) is

    epoch = g div size,      index = permutation_{seed, epoch}(g mod size),

a pure function of (seed, step, position in the global batch). Resuming, or another number of ranks,
replays the same batches; each epoch has each example exactly once; a batch may span two epochs.
Nothing is stored.

The permutation is a Feistel network over Z_a x Z_b with a * b just above ``size`` (the generalised
form of Black & Rogaway 2002, "Ciphers with arbitrary finite domains"):

    i = l * b + r,      l <- l + F_k(r) mod a,      r <- r + F_k'(l) mod b,      and so on.

Each line is invertible for every F, so the result is a permutation of 0 .. ab-1. An image outside
0 .. size-1 is permuted again until it is inside ("cycle walking"), which gives a permutation of
0 .. size-1 and is needed for fewer than one in b elements. The round keys come from Philox, F is
the finaliser of MurmurHash3.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from .philox import WORD, philox

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    Words = NDArray[np.int64]

_ROUNDS = 8  # four for each half; a multiple of four, since Philox returns four words
_LABEL = 0x6F726465  # "orde": separates these words from the noise of the same seed
_PART = 1 << 62  # an epoch that no training reaches
_LARGEST = 1 << 48  # beyond it F, of 32 bits, would no longer spread evenly over Z_a and Z_b


def indices(seed: int, step: int, positions: Tensor, total: int, size: int) -> Tensor:
    """[B] int64: the indices, of ``size`` examples, at ``positions`` [B] of the global batch.

    ``total`` is the size of the global batch, ``step`` counts from 0.
    """
    if total < 1:
        raise ValueError(f"a global batch has at least 1 example, not {total}")
    if step < 0:
        raise ValueError(f"steps count from 0, not {step}")
    _check_size(size)
    count = positions.long() + step * total
    return permute(count % size, size, seed, count // size)


def permute(slots: Tensor, size: int, seed: int, epoch: Tensor | int = 0) -> Tensor:
    """The images of ``slots`` (0 .. size-1) under the permutation keyed by (seed, epoch), int64.

    ``epoch`` is one for all, or a tensor like ``slots``.
    """
    import torch

    _check_size(size)
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"a seed lies in 0 .. 2^64-1, not {seed}")
    shape, device = slots.shape, slots.device
    start = slots.long().cpu().reshape(-1).numpy()
    keys = _keys(seed, torch.as_tensor(epoch).cpu().reshape(-1).numpy(), len(start))
    a = math.isqrt(size - 1) + 1  # ceil(sqrt(size))
    b = -(-size // a)
    image = _feistel(start, a, b, keys)
    outside = (image >= size).nonzero()[0]
    while len(outside):
        walked = _feistel(image[outside], a, b, keys[:, outside])
        image[outside] = walked
        outside = outside[walked >= size]
    return torch.from_numpy(image).reshape(shape).to(device)


def random_subset(count: int, size: int, seed: int) -> Tensor:
    """[count] int64: a random subset of 0 .. size-1 without repetition, sorted.

    The first ones, or every k-th, would depend on how the examples are sorted.
    """
    import torch

    return permute(torch.arange(min(count, size)), size, seed, _PART).sort().values


def _check_size(size: int) -> None:
    if not 1 <= size <= _LARGEST:
        raise ValueError(f"an order needs 1 to 2^48 elements, not {size}")


def _keys(seed: int, epochs: NDArray[np.int64], count: int) -> Words:
    """[rounds, count] the key of each round for each element."""
    import numpy as np

    # A batch has one epoch or two: compute keys per epoch, not per element.
    distinct, which = np.unique(epochs, return_inverse=True)
    table = np.array([_round_keys(seed, int(e)) for e in distinct], dtype=np.int64)
    return np.broadcast_to(table.T[:, which], (_ROUNDS, count))


def _feistel(i: Words, a: int, b: int, keys: Words) -> Words:
    left, right = i // b, i % b
    for even, odd in zip(keys[::2], keys[1::2], strict=True):
        left = (left + _mix(right, even)) % a
        right = (right + _mix(left, odd)) % b
    return left * b + right


def _mix(value: Words, key: Words) -> Words:
    """32 mixed bits of a half and a key; int64 products wrap, so the low word is exact."""
    h = value + key & WORD
    h = (h ^ h >> 16) * 0x85EBCA6B & WORD
    h = (h ^ h >> 13) * 0xC2B2AE35 & WORD
    return h ^ h >> 16


@lru_cache(maxsize=64)
def _round_keys(seed: int, epoch: int) -> tuple[int, ...]:
    """One 32-bit word for each round."""
    key = (seed & WORD, seed >> 32)
    words: tuple[int, ...] = ()
    for block in range(_ROUNDS // 4):
        words += philox((epoch & WORD, epoch >> 32, block, _LABEL), key)
    return words

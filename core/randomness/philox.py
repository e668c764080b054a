"""Philox4x32-10: random words as a function of a counter and a key.

Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3". A round multiplies two of the
four words by constants and mixes the halves of the products into the others,

    c0, c1, c2, c3  <-  hi(m1 c2) ^ c1 ^ k0,  lo(m1 c2),  hi(m0 c0) ^ c3 ^ k1,  lo(m0 c0),

and the key is incremented by a constant. There are two implementations with the same bits: one for
64-bit integers (tensors on any device, Python integers), one for NumPy arrays, where the halves of
a product are views.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    Words = NDArray[np.uint32]

Word = TypeVar("Word", int, "Tensor")

WORD = 0xFFFFFFFF
_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


def philox(
    counter: tuple[Word, Word, Word, Word], key: tuple[int, int]
) -> tuple[Word, Word, Word, Word]:
    """Four 32-bit words for each 128-bit counter, in integers or in tensors of int64.

    Products of two 32-bit words wrap modulo 2^64 in int64, so the low 64 bits are exact and
    both halves can be read off: the same bits on every device.
    """
    c0, c1, c2, c3 = counter
    for k0, k1 in _round_keys(key):
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c2 = (p1 >> 32 & WORD) ^ c1 ^ k0, (p0 >> 32 & WORD) ^ c3 ^ k1
        c1, c3 = p1 & WORD, p0 & WORD
    return c0, c1, c2, c3


def philox_on_cpu(even: Words, odd: Words, key: tuple[int, int]) -> tuple[Words, Words]:
    """The same in arrays: (c0, c2) and (c1, c3) [2, ...], which broadcast against each other."""
    import numpy as np

    axes = (1,) * (max(even.ndim, odd.ndim) - 1)
    multipliers = np.array(_MULTIPLIERS, dtype=np.uint64).reshape(2, *axes)
    keys = np.array(_round_keys(key), dtype=np.uint32).reshape(_ROUNDS, 2, *axes)
    for k in keys:
        products = np.multiply(even, multipliers, dtype="<u8")
        halves = products.view("<u4")[::-1]  # m1 c2 before m0 c0
        even, odd = halves[..., 1::2] ^ odd ^ k, halves[..., 0::2]
    return even, odd


def _round_keys(key: tuple[int, int]) -> list[tuple[int, int]]:
    (k0, k1), (w0, w1) = key, _WEYL
    return [(k0 + n * w0 & WORD, k1 + n * w1 & WORD) for n in range(_ROUNDS)]

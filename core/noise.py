"""Randomness without a global state: one stream per sample.

Every random number in the library is a pure function of

    (seed, position of the sample in the global batch, step, label, element),

computed by the counter-based generator Philox4x32-10 (Salmon et al. 2011, "Parallel random
numbers: as easy as 1, 2, 3"). The same sample therefore comes out at batch size 1 and 64, on
1 and 8 ranks, on the CPU and on a GPU, and a resumed run replays its noise without any saved
generator state. The label says what the number is for ("mask", "value", ...), so two uses never
share numbers by accident, and asking twice gives the same answer.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_SHARED = _WORD  # the position whose stream belongs to the whole batch


def philox(
    counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[int, int]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Philox4x32-10: four 32-bit words (held in int64) for each 128-bit counter.

    Products of two 32-bit words wrap modulo 2^64 in int64, so the low 64 bits are exact and
    both halves can be read off: the same bits on every device.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c2 = (p1 >> 32 & _WORD) ^ c1 ^ k0, (p0 >> 32 & _WORD) ^ c3 ^ k1
        c1, c3 = p1 & _WORD, p0 & _WORD
        k0, k1 = k0 + _WEYL[0] & _WORD, k1 + _WEYL[1] & _WORD
    return c0, c1, c2, c3


@cache
def _label_word(label: str) -> int:
    return zlib.crc32(label.encode())


@attrs.frozen(eq=False)
class Noise:
    """A source of random numbers for the samples at ``positions`` of a global batch.

    ``total`` is the size of that global batch (stratified times need it); ``step`` is the
    training step or the step of a sampler, one for all or one per sample.
    """

    seed: int = attrs.field(validator=[attrs.validators.ge(0), attrs.validators.lt(2**64)])
    positions: Tensor  # [B] int64
    total: int
    step: int | Tensor = 0

    @classmethod
    def of(
        cls, seed: int, batch: int, *, step: int = 0, device: torch.device | str | None = None
    ) -> Noise:
        """The source of a whole batch on one machine."""
        import torch

        return cls(seed, torch.arange(batch, device=device), batch, step)

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def device(self) -> torch.device:
        return self.positions.device

    def at(self, step: int | Tensor) -> Noise:
        """The same samples at another step."""
        return attrs.evolve(self, step=step)

    def select(self, index: Tensor | slice) -> Noise:
        """The source of some of the samples; their numbers do not change."""
        step = self.step if isinstance(self.step, int) else self.step[index]
        return attrs.evolve(self, positions=self.positions[index], step=step)

    def uniform(
        self, label: str, shape: Sequence[int] = (), dtype: torch.dtype | None = None
    ) -> Tensor:
        """Uniform on the open interval (0, 1), [B, *shape]; float64 (52 bits) unless told."""
        import torch

        if dtype is None or dtype == torch.float64:
            a, b = self._words(label, shape, per_element=2)
            return ((a >> 6 << 26 | b >> 6).double() + 0.5) * 2.0**-52
        (a,) = self._words(label, shape, per_element=1)
        return ((a >> 9).to(torch.float32) + 0.5).mul_(2.0**-23).to(dtype)

    def normal(
        self, label: str, shape: Sequence[int] = (), dtype: torch.dtype | None = None
    ) -> Tensor:
        """Standard normal, [B, *shape]: Box-Muller in float64, cast to ``dtype`` (float32)."""
        import torch

        a, b = self._words(label, shape, per_element=2)
        radius = ((a.double() + 0.5) * 2.0**-32).log_().mul_(-2).sqrt_()
        angle = (b.double() + 0.5).mul_(2 * torch.pi * 2.0**-32)
        return (radius * angle.cos_()).to(dtype or torch.float32)

    def integers(self, label: str, high: int, shape: Sequence[int] = ()) -> Tensor:
        """Uniform on 0 .. high-1, [B, *shape] int64."""
        return (self.uniform(label, shape) * high).long().clamp_(max=high - 1)

    def shared_uniform(self, label: str) -> float:
        """One number on (0, 1) for the whole global batch at this step."""
        import torch

        if not isinstance(self.step, int):
            raise TypeError("a number shared by the batch needs one step for the whole batch")
        whole = attrs.evolve(self, positions=torch.tensor([_SHARED]))
        return float(whole.uniform(label))

    def _words(self, label: str, shape: Sequence[int], per_element: int) -> list[Tensor]:
        """``per_element`` random 32-bit words for each element, each [B, *shape]."""
        import torch

        batch, size = len(self), 1
        for side in shape:
            size *= side
        blocks = -(-size * per_element // 4)
        zero = torch.zeros((batch, blocks), dtype=torch.int64, device=self.device)
        step = self.step if isinstance(self.step, int) else self.step[:, None]
        words = philox(
            (
                zero + torch.arange(blocks, device=self.device),
                zero + self.positions[:, None],
                zero + step,
                zero + _label_word(label),
            ),
            (self.seed & _WORD, self.seed >> 32),
        )
        flat = torch.stack(words, dim=-1).reshape(batch, 4 * blocks)[:, : size * per_element]
        elements = flat.reshape(batch, *shape, per_element)
        return list(elements.unbind(-1))

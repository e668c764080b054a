"""Random numbers without global state: one stream per sample.

Every random number in the library is a pure function of

    (seed, position of the sample in the global batch, step, label, element),

computed by the counter-based generator :mod:`elbowroom.randomness.philox`. A sample is therefore
the same at every batch size, number of ranks and device, and a resumed run replays its noise
without saved generator state. The label names the use of the number ("mask", "value", ...), so two
uses never share numbers, and a repeated call returns the same numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import attrs

from .philox import WORD, philox, philox_on_cpu

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_SHARED = WORD  # the position whose stream belongs to the whole batch


@cache
def _label_word(label: str) -> int:
    return zlib.crc32(label.encode())


@attrs.frozen(eq=False)
class Noise:
    """Random numbers for the samples at ``positions`` of a global batch.

    Args:
        seed: 0 .. 2^64-1.
        positions: [B] int64, positions of the samples in the global batch.
        total: Size of the global batch.
        step: Step of training or of a sampler, one for all samples or one per sample.

    Example:
        >>> noise = Noise.of(seed=0, batch=16)
        >>> eps = noise.normal("eps", (8, 8, 1))    # [16, 8, 8, 1]
    """

    seed: int = attrs.field(validator=[attrs.validators.ge(0), attrs.validators.lt(2**64)])
    positions: Tensor  # [B] int64
    total: int
    step: int | Tensor = 0

    @classmethod
    def of(
        cls, seed: int, batch: int, *, step: int = 0, device: torch.device | str | None = None
    ) -> Noise:
        """The noise of a whole batch in one process."""
        import torch

        return cls(seed, torch.arange(batch, device=device), batch, step)

    @classmethod
    def drawn(cls, batch: int, device: torch.device | str | None = None) -> Noise:
        """Noise with a seed drawn by torch's generator, different at each call.

        In a process group each rank has its own part of the global batch.
        """
        import torch
        from torch import distributed

        grouped = distributed.is_available() and distributed.is_initialized()
        rank, world = (distributed.get_rank(), distributed.get_world_size()) if grouped else (0, 1)
        positions = torch.arange(rank * batch, (rank + 1) * batch, device=device)
        return cls(int(torch.randint(2**62, ())), positions, world * batch)

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def device(self) -> torch.device:
        return self.positions.device

    def at(self, step: int | Tensor) -> Noise:
        """The same samples at another step."""
        return attrs.evolve(self, step=step)

    def select(self, index: Tensor | slice) -> Noise:
        """The noise of some of the samples; their numbers do not change."""
        step = self.step if isinstance(self.step, int) else self.step[index]
        return attrs.evolve(self, positions=self.positions[index], step=step)

    def uniform(
        self, label: str, shape: Sequence[int] = (), dtype: torch.dtype | None = None
    ) -> Tensor:
        """Uniform on the open interval (0, 1), [B, *shape]; default float64 (52 bits)."""
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
        if not isinstance(self.step, int):
            raise TypeError("a number shared by the batch needs one step for the whole batch")
        a, b, _, _ = philox((0, _SHARED, self.step, _label_word(label)), self._key)
        return ((a >> 6 << 26 | b >> 6) + 0.5) * 2.0**-52

    @property
    def _key(self) -> tuple[int, int]:
        return self.seed & WORD, self.seed >> 32

    def _words(self, label: str, shape: Sequence[int], per_element: int) -> list[Tensor]:
        """``per_element`` random 32-bit words for each element, each [B, *shape] int64."""
        batch, size = len(self), 1
        for side in shape:
            size *= side
        blocks = -(-size * per_element // 4)
        draw = self._blocks_on_cpu if self.device.type == "cpu" else self._blocks
        flat = draw(_label_word(label), blocks).reshape(batch, 4 * blocks)
        elements = flat[:, : size * per_element].reshape(batch, *shape, per_element)
        return list(elements.unbind(-1))

    def _blocks(self, label: int, blocks: int) -> Tensor:
        """[B, blocks, 4] words, computed where the positions are."""
        import torch

        zero = torch.zeros((len(self), blocks), dtype=torch.int64, device=self.device)
        step = self.step if isinstance(self.step, int) else self.step[:, None]
        counter = (
            zero + torch.arange(blocks, device=self.device),
            zero + self.positions[:, None],
            zero + step,
            zero + label,
        )
        return torch.stack(philox(counter, self._key), dim=-1)

    def _blocks_on_cpu(self, label: int, blocks: int) -> Tensor:
        """The same words, computed by NumPy."""
        import numpy as np
        import torch

        step = np.array([self.step]) if isinstance(self.step, int) else self.step.numpy()
        even = np.empty((2, len(step), blocks), dtype=np.uint32)
        even[0], even[1] = np.arange(blocks), step[:, None]
        odd = np.empty((2, len(self), 1), dtype=np.uint32)
        odd[0], odd[1] = self.positions[:, None].numpy(), label
        words = np.empty((len(self), blocks, 2, 2), dtype=np.int64)
        for n, pair in enumerate(philox_on_cpu(even, odd, self._key)):
            words[..., n] = np.moveaxis(pair, 0, -1)
        return torch.from_numpy(words)

"""Drawing samples from a model.

Samples are drawn in chunks; the noise of a sample is keyed by its number, so neither the chunks
nor how many are drawn changes any of them. Chunks need nothing of each other: ranks share them out,
one after the other, and each is the very chunk that one process draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import torch
from elbowroom import DataSpec, Diffusion, ElbowroomError, Frame, Noise
from elbowroom.config import check_integer
from elbowroom.plugins.conformance.component_checks import check_begun, check_ended, listening
from torch import Tensor

from .trained_levels import warn_beyond

Labels = int | str | Sequence[int | str] | Tensor | None
"""One class for all, one for each sample, or None: every class in turn where there are classes.

A class is a label, or a name of the data's."""


@attrs.frozen(eq=False)
class Drawn:
    """A chunk of finished samples."""

    first: int  # the number of the first of them
    x: Tensor  # [B, *shape] integers, on the CPU
    labels: Tensor | None  # [B]
    calls: Tensor  # [B] network calls each took

    def tensors(self) -> dict[str, Tensor]:
        """The same as tensors by name, in little room: to be sent or kept."""
        labels = {} if self.labels is None else {"labels": self.labels}
        small = torch.uint8 if self.x.numel() and 0 <= self.x.min() <= self.x.max() < 256 else None
        x = self.x.to(small or self.x.dtype)
        return {"first": torch.tensor(self.first), "x": x, "calls": self.calls, **labels}

    @classmethod
    def of_tensors(cls, found: Mapping[str, Tensor]) -> Drawn:
        """The chunk that was made tensors."""
        return cls(int(found["first"]), found["x"].long(), found.get("labels"), found["calls"])


Watch = Callable[[int, Frame], None]
"""(the number of a chunk's first sample, a frame of the chunk)"""


def draw(
    model: Diffusion,
    count: int,
    labels: Labels = None,
    seed: int = 0,
    batch_size: int = 64,
    *,
    watch: Watch | None = None,
) -> Iterator[Drawn]:
    """``count`` samples by the model's sampler, ``batch_size`` at a time.

    ``watch(first, frame)`` is shown every frame of every chunk as it passes.
    """
    chunks = Chunks.of(model, count, labels, seed, batch_size)
    for first in chunks.firsts():
        yield chunks.draw(first, watch)


@attrs.define(eq=False)
class Chunks:
    """So many samples of a model, drawn chunk by chunk in any order."""

    model: Diffusion
    count: int
    labels: Tensor | None  # [count]
    seed: int
    batch_size: int
    _checked: bool = attrs.field(default=False, init=False)

    @classmethod
    def of(cls, model: Diffusion, count: int, labels: Labels, seed: int, batch_size: int) -> Chunks:
        """What cannot be drawn is refused here."""
        if model.sampler is None:
            raise ElbowroomError("sampler: this model has none, name one in its config")
        check_integer("count", count, 1)
        check_integer("batch_size", batch_size, 1)
        check_integer("seed", seed, 0)
        told = labels_of(model, count, labels)
        warn_beyond(model)
        return cls(model, count, told, seed, batch_size)

    def firsts(self, rank: int = 0, world: int = 1) -> range:
        """The number of the first sample of each chunk that is a rank's: some in a row."""
        total = -(-self.count // self.batch_size)
        begin, end = (-(-r * total // world) * self.batch_size for r in (rank, rank + 1))
        return range(begin, min(end, self.count), self.batch_size)

    def draw(self, first: int, watch: Watch | None = None) -> Drawn:
        """The chunk that begins with sample number ``first``."""
        device = next((p.device for p in self.model.parameters()), torch.device("cpu"))
        numbers = torch.arange(first, min(first + self.batch_size, self.count))
        told = None if self.labels is None else self.labels[numbers]
        cond = None if told is None else told.to(device)
        noise = Noise(self.seed, numbers.to(device), self.count)
        # the first answers are looked at; looking at all would make the device wait
        walk = _walk if self._checked else _first_walk
        with evaluating(self.model):
            frame = walk(self.model, noise, cond, first, watch)
        self._checked = True
        assert frame.x is not None, "the last frame must be finished"
        assert frame.calls is not None, "the last frame must say what it took"
        return Drawn(first, frame.x.cpu(), told, frame.calls.cpu())


@torch.no_grad()
def _walk(
    model: Diffusion,
    noise: Noise,
    cond: Tensor | None,
    first: int,
    watch: Watch | None,
) -> Frame:
    assert model.sampler is not None
    frame: Any = None
    for frame in model.sampler.frames(model, noise, cond):
        if watch is not None:
            watch(first, frame)
    return frame  # type: ignore[no-any-return]  # None if there was none: the first walk says so


def _first_walk(
    model: Diffusion,
    noise: Noise,
    cond: Tensor | None,
    first: int,
    watch: Watch | None,
) -> Frame:
    """The same, with the first answer of the network and both ends of the path checked."""
    sampler = model.sampler
    assert sampler is not None
    seen: list[Frame] = []

    def look(start: int, frame: Frame) -> None:
        if not seen:
            seen.append(check_begun(sampler, frame, len(noise), model.process))
        if watch is not None:
            watch(start, frame)

    with listening(model):
        last = _walk(model, noise, cond, first, look)
    return check_ended(sampler, last, len(noise), model.process.data)


def labels_of(model: Diffusion, count: int, labels: Labels) -> Tensor | None:
    """[count] the label of each sample; None for a model without classes."""
    classes = model.process.signature().classes
    if classes is None:
        if labels is not None:
            raise ElbowroomError("labels were given, and this model's data has none")
        return None
    if labels is None:
        return torch.arange(count) % classes
    given = _numbers(model.process.data, labels)
    if not 0 < len(given) <= count:
        raise ElbowroomError(f"{len(given)} labels were given for {count} samples")
    return given[torch.arange(count) % len(given)]


def _numbers(data: DataSpec, labels: int | str | Sequence[int | str] | Tensor) -> Tensor:
    """Labels and names as labels, each one that there is."""
    if not isinstance(labels, str | Sequence):
        try:
            labels = torch.as_tensor(labels).reshape(-1).tolist()
        except (TypeError, RuntimeError, ValueError):
            raise ElbowroomError(f"labels are integers or names, not {labels!r}") from None
    given = [labels] if isinstance(labels, str) else labels
    return torch.tensor([data.label_of(one) for one in given], dtype=torch.int64)


@contextmanager
def evaluating(model: Diffusion) -> Iterator[None]:
    """The model without dropout; each part is as it was afterwards."""
    before = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in before.items():
            module.training = training

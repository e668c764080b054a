"""Drawing samples from a model.

Samples are drawn in chunks; the noise of a sample is keyed by its number, so neither the chunks
nor how many are drawn changes any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import torch
from torch import Tensor

from ..config.sizes import check_labels, check_samples
from ..conformance.answers import check_begun, check_ended, listening
from ..contracts.dataset import DataSpec
from ..contracts.sampler import Frame
from ..errors import ElbowroomError
from ..objective.diffusion import Diffusion
from ..randomness.noise import Noise
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


def draw(
    model: Diffusion,
    count: int,
    labels: Labels = None,
    seed: int = 0,
    batch_size: int = 64,
    *,
    watch: Callable[[int, Frame], None] | None = None,
) -> Iterator[Drawn]:
    """``count`` samples by the model's sampler, ``batch_size`` at a time.

    ``watch(first, frame)`` is shown every frame of every chunk as it passes.
    """
    if model.sampler is None:
        raise ElbowroomError("sampler: this model has none, name one in its config")
    if count < 1 or batch_size < 1:
        raise ElbowroomError(f"cannot draw {count} samples, {batch_size} at a time")
    check_labels(count)
    check_samples(min(count, batch_size), model.process.data)
    told = labels_of(model, count, labels)
    warn_beyond(model)
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    for first in range(0, count, batch_size):
        numbers = torch.arange(first, min(first + batch_size, count))
        cond = None if told is None else told[numbers].to(device)
        noise = Noise(seed, numbers.to(device), count)
        with evaluating(model):
            # the first answers are looked at; looking at all would make the device wait
            walk = _walk if first else _first_walk
            frame = walk(model, noise, cond, first, watch)
        assert frame.x is not None, "the last frame must be finished"
        assert frame.calls is not None, "the last frame must say what it took"
        yield Drawn(
            first, frame.x.cpu(), None if told is None else told[numbers], frame.calls.cpu()
        )


@torch.no_grad()
def _walk(
    model: Diffusion,
    noise: Noise,
    cond: Tensor | None,
    first: int,
    watch: Callable[[int, Frame], None] | None,
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
    watch: Callable[[int, Frame], None] | None,
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
    told = _numbers(model.process.data, labels)
    if told.numel() == 1:
        told = told.expand(count)
    if len(told) != count:
        raise ElbowroomError(f"{len(told)} labels were given for {count} samples: one, or as many")
    return told


def _numbers(data: DataSpec, labels: int | str | Sequence[int | str] | Tensor) -> Tensor:
    """Labels and names as labels, each one that there is."""
    if not isinstance(labels, str | Sequence):
        labels = torch.as_tensor(labels).reshape(-1).tolist()
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

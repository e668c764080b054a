"""What a training step really takes on a device: as many examples as a few seconds allow."""

from __future__ import annotations

import time
from collections.abc import Callable

import attrs
import torch
from elbowroom import (
    Batch,
    Dataset,
    DataSpec,
    Noise,
    Parts,
    Ranks,
    Split,
    Training,
    build_model,
    place,
)
from torch import Tensor

_LONG_ENOUGH = 1.0  # seconds of a step, from which on larger batches change little


@attrs.frozen
class Measured:
    """One step and one look, timed."""

    device: str
    batch: int  # examples at once
    step_seconds: float  # of a step of that batch
    look_seconds: float  # of one forward pass of that batch
    peak_bytes: int | None  # of the device, where it counts; None on a CPU


@attrs.frozen
class Anything(Dataset):
    """Random examples of a form: how long a step takes does not depend on what they show."""

    form: DataSpec

    @property
    def spec(self) -> DataSpec:
        return self.form

    def split(self, name: str) -> Split:
        return _Anything(self.form)


@attrs.frozen
class _Anything(Split):
    form: DataSpec

    def __len__(self) -> int:
        return 1 << 20

    def take(self, indices: Tensor) -> Batch:
        noise = Noise(0, indices, len(self))
        x = noise.integers("x", self.form.levels, self.form.shape)
        classes = self.form.classes
        return Batch(x, None if classes is None else indices % classes)


def measure(
    parts: Parts,
    device: str | None,
    most: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Measured:
    """Double the batch from 1 until a step takes a second or another doubling exceeds ``most``."""
    assert parts.spec is not None
    there, batch = place(device), 1
    while True:
        found = _measured(parts, parts.spec, there, batch, clock)
        if found.step_seconds >= _LONG_ENOUGH or 2 * batch > most:
            return found
        batch *= 2


def _measured(
    parts: Parts, form: DataSpec, device: torch.device, batch: int, clock: Callable[[], float]
) -> Measured:
    options = attrs.evolve(parts.config.train, batch_size=batch)
    model = build_model(parts)
    training = Training(model, Anything(form), options, seed=0, ranks=Ranks(device))
    x, cond = (None if t is None else t.to(device) for t in _examples(form, batch))
    assert x is not None

    def look() -> None:
        with torch.no_grad():
            model(x, cond, Noise.of(0, batch, device=device))

    try:
        step = _timed(training.step, device, clock)
        model.eval()
        seen = _timed(lambda _: look(), device, clock)
    finally:
        training.feed.close()
    return Measured(str(device), batch, step, seen, _peak(device))


def _examples(form: DataSpec, batch: int) -> tuple[Tensor, Tensor | None]:
    found = _Anything(form).take(torch.arange(batch))
    return found.x, found.y


def _timed(
    run: Callable[[int], None], device: torch.device, clock: Callable[[], float], turns: int = 2
) -> float:
    """The fastest of a few turns, after one that is not counted."""
    seconds = []
    for n in range(turns + 1):
        began = clock()
        run(n)
        if device.type != "cpu":
            torch.accelerator.synchronize()
        seconds.append(clock() - began)
    return min(seconds[1:])


def _peak(device: torch.device) -> int | None:
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None

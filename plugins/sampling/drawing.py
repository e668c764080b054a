"""Drawing samples from a model.

:func:`draw` is the only function that draws: the command ``sample``, :func:`elbowroom.sample`,
metrics, previews of training and the exported pipeline call it.

Samples are drawn in chunks of ``batch_size``. The noise of a sample is keyed by its number, so
neither the size of the chunks nor the number of samples changes a sample, and ranks can draw
different chunks of one set.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Protocol

import torch
from elbowroom import DataSpec, Diffusion, ElbowroomError, Frame, Noise, Sampler, Samples
from elbowroom.config import check_integer
from elbowroom.objective import Conditioned, log_snr_range
from elbowroom.plugins.conformance.component_checks import check_begun, check_ended, listening
from torch import Tensor

from .given import GivenExamples

Labels = int | str | Sequence[int | str] | Tensor | None
"""One class for all samples, or several that are repeated; None: all classes, repeated.

A class is a label or a class name of the data."""

Watch = Callable[[int, Frame], None]
"""(number of the chunk's first sample, a frame of the chunk)"""


class SampleStore(Protocol):
    """Keeps chunks of samples."""

    def read(self, first: int) -> Samples | None:
        """Return the chunk that starts at sample number ``first``; None if it is not there."""

    def write(self, chunk: Samples) -> None:
        """Add a chunk."""


_TOLERANCE = 1e-3  # of log-SNR


def draw(
    model: Diffusion,
    count: int,
    labels: Labels = None,
    seed: int = 0,
    batch_size: int = 64,
    *,
    step: int = 0,
    part: tuple[int, int] = (0, 1),
    store: SampleStore | None = None,
    watch: Watch | None = None,
    given: GivenExamples | None = None,
) -> Iterator[Samples]:
    """Draw ``count`` samples with the model's sampler, ``batch_size`` at a time.

    Args:
        model: The model; its sampler, weights and device are used as they are.
        count: The number of samples.
        labels: Their classes.
        seed: Key of the noise.
        batch_size: The samples per chunk. Does not change any sample.
        step: Second key of the noise. Previews during training use their own.
        part: (rank, number of ranks): draw only the chunks of this rank.
        store: Chunks drawn earlier, which are not drawn again; new chunks are added to it.
        watch: Called with every frame of every chunk.
        given: Examples to complete: their kept positions are given. Sample i completes row i mod G.

    Returns:
        An iterator over the chunks, on the CPU. Arguments are checked before it is returned.
    """
    if model.sampler is None:
        raise ElbowroomError("sampler: missing. Name one in the config, e.g. sampler: ancestral")
    check_integer("count", count, 1)
    check_integer("batch_size", batch_size, 1)
    check_integer("seed", seed, 0)
    classes = labels_of(model, count, labels)
    _warn_of_untrained_levels(model, model.sampler)
    device = next((p.device for p in model.parameters()), torch.device("cpu"))

    def chunks() -> Iterator[Samples]:
        check = True
        for first in chunk_starts(count, batch_size, *part):
            chunk = None if store is None else store.read(first)
            if chunk is None:
                numbers = torch.arange(first, min(first + batch_size, count))
                noise = Noise(seed, numbers.to(device), count, step)
                chosen = None if classes is None else classes[numbers]
                known = None if given is None else given.rows(numbers)
                chunk = draw_chunk(model, noise, chosen, first, watch, check=check, given=known)
                check = False
                if store is not None:
                    store.write(chunk)
            yield chunk

    return chunks()


@torch.no_grad()
def draw_chunk(
    model: Diffusion,
    noise: Noise,
    labels: Tensor | None,
    first: int,
    watch: Watch | None,
    *,
    check: bool,
    given: tuple[Tensor, Tensor] | None = None,
) -> Samples:
    """Draw one sample for each row of ``noise`` [B], with ``labels`` [B].

    With ``check`` the first network output and both ends of the trajectory are checked. Checking
    every chunk would synchronise with the device more often. ``given`` is x and keep, [B, *D].
    """
    sampler, frame = model.sampler, None
    assert sampler is not None, "checked by draw"
    cond = None if labels is None else labels.to(noise.device)
    source: Diffusion | Conditioned = model
    if given is not None and bool(given[1].any()):
        x, keep = (one.to(noise.device) for one in given)
        if bool(keep.all()):  # there is nothing to draw
            return Samples(x.cpu(), torch.zeros(len(x), dtype=torch.int64), labels, first)
        source = model.conditioned_on(x, keep)
    with evaluation_mode(model), listening(model) if check else nullcontext():
        for number, frame in enumerate(sampler.frames(source, noise, cond)):
            if check and number == 0:
                check_begun(sampler, frame, len(noise), model.process)
            if watch is not None:
                watch(first, frame)
    if check:
        frame = check_ended(sampler, frame, len(noise), model.process.data)
    assert frame is not None and frame.x is not None and frame.calls is not None, "not finished"
    done = frame.x.cpu()
    if given is not None:
        done = torch.where(given[1], given[0], done)
    return Samples(done, frame.calls.cpu(), labels, first)


def chunk_starts(count: int, batch_size: int, rank: int = 0, world: int = 1) -> range:
    """First sample numbers of the consecutive chunks that a rank draws."""
    total = -(-count // batch_size)
    begin, end = (-(-r * total // world) * batch_size for r in (rank, rank + 1))
    return range(begin, min(end, count), batch_size)


def join(chunks: Sequence[Samples]) -> Samples:
    """All chunks as one."""
    labels = [chunk.labels for chunk in chunks if chunk.labels is not None]
    return Samples(
        torch.cat([chunk.x for chunk in chunks]),
        torch.cat([chunk.calls for chunk in chunks]),
        torch.cat(labels) if labels else None,
        chunks[0].first,
    )


def to_tensors(chunk: Samples) -> dict[str, Tensor]:
    """A chunk as named tensors, x as uint8 if it fits; see :func:`from_tensors`."""
    labels = {} if chunk.labels is None else {"labels": chunk.labels}
    fits = chunk.x.numel() and 0 <= chunk.x.min() <= chunk.x.max() < 256
    x = chunk.x.to(torch.uint8) if fits else chunk.x
    return {"first": torch.tensor(chunk.first), "x": x, "calls": chunk.calls, **labels}


def from_tensors(tensors: Mapping[str, Tensor]) -> Samples:
    """Inverse of :func:`to_tensors`."""
    x, calls, labels = tensors["x"].long(), tensors["calls"], tensors.get("labels")
    return Samples(x, calls, labels, int(tensors["first"]))


def labels_of(model: Diffusion, count: int, labels: Labels) -> Tensor | None:
    """[count] the label of each sample; None for a model without classes."""
    classes = model.process.signature().classes
    if classes is None:
        if labels is not None:
            raise ElbowroomError("labels were given, but the model's data has no classes")
        return None
    if labels is None:
        return torch.arange(count) % classes
    given = _label_numbers(model.process.data, labels)
    if not 0 < len(given) <= count:
        raise ElbowroomError(f"{len(given)} labels were given for {count} samples")
    return given[torch.arange(count) % len(given)]


def _label_numbers(data: DataSpec, labels: int | str | Sequence[int | str] | Tensor) -> Tensor:
    """Labels and class names as labels."""
    if not isinstance(labels, str | Sequence):
        try:
            labels = torch.as_tensor(labels).reshape(-1).tolist()
        except (TypeError, RuntimeError, ValueError):
            raise ElbowroomError(f"labels are integers or names, not {labels!r}") from None
    given = [labels] if isinstance(labels, str) else labels
    return torch.tensor([data.label_of(one) for one in given], dtype=torch.int64)


def _warn_of_untrained_levels(model: Diffusion, sampler: Sampler) -> None:
    """Warn if the sampler's levels exceed those the network was trained on."""
    if not model.process.signature().needs_level:
        return
    used = sampler.levels(model).log_snr
    used = used[used.isfinite()]
    least, most = float(used.min()), float(used.max())
    low, high = model.trained_range or log_snr_range(model.schedule)
    if least < low - _TOLERANCE or most > high + _TOLERANCE:
        warnings.warn(
            f"the sampler uses log-SNR {least:.4g} to {most:.4g}, but the network was trained on "
            f"{low:.4g} to {high:.4g}: outside this range its output is untrained",
            stacklevel=3,
        )


@contextmanager
def evaluation_mode(model: Diffusion) -> Iterator[None]:
    """Switch dropout off; restore the mode of every module afterwards."""
    before = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in before.items():
            module.training = training

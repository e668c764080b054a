"""Drawing samples from a model, and from a run into files.

Samples are drawn in chunks; the noise of a sample is keyed by its number, so neither the chunks
nor how many are drawn changes any of them.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import attrs
import torch
from torch import Tensor

from .answers import check_begun, check_ended, listening
from .assembly import build_model, build_parts
from .atomic import write_atomically
from .checkpoint import (
    Checkpoint,
    CheckpointError,
    best_first,
    checkpoints,
    load_weights,
    undamaged,
)
from .config import Config
from .dataset import DataSpec
from .devices import place
from .diffusion import Diffusion
from .errors import ElbowroomError
from .level import Level
from .noise import Noise
from .picture import Animation, has_picture, pixels, save_png, tiled
from .run_folder import RunFolder, warn_of_changes
from .sampler import Frame
from .sizes import check_labels, check_samples
from .trained_levels import ends_of, warn_beyond
from .working import check_precision, working

Labels = int | str | Sequence[int | str] | Tensor | None
"""One class for all, one for each sample, or None: every class in turn where there are classes.

A class is a label, or a name of the data's."""

_SHOWN = 64  # pictures in the grid and in the animation


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


# -- a run


@attrs.frozen(eq=False)
class Loaded:
    """A run's model with its weights."""

    model: Diffusion
    folder: RunFolder
    checkpoint: Checkpoint


def load_run(
    run: str | PathLike[str],
    overrides: Any = (),
    checkpoint: str | int = "best",
    weights: str = "ema",
    device: torch.device | str | None = None,
    *,
    trust: bool = False,
) -> Loaded:
    """The model of a run, in evaluation mode: ``checkpoint`` is "best", "last" or a step.

    "best" is the one with the lowest validation bits/dim, or the last where none was evaluated.
    Without a ``device`` it goes to a GPU if there is one.
    Code that a run from elsewhere refers to is executed only with ``trust``.
    """
    there = place(device)
    folder = RunFolder.open(run, trust=trust)
    found = _checkpoint(folder, checkpoint, weights)
    config = folder.config(overrides)
    own = folder.config(like=config) if overrides else config
    warn_of_changes(own, found)
    unchanged = config.data == own.data
    spec = _recorded_spec(found) if unchanged else None  # drawing needs no data on this machine
    model = build_model(build_parts(config, spec=spec))
    model.trained_ends = _trained_ends(folder, config) if overrides else None
    load_weights(model, found, weights)
    return Loaded(model.to(there).eval(), folder, found)


def _trained_ends(folder: RunFolder, config: Config) -> tuple[float, float] | None:
    """Between which levels a run was trained; None where ``config`` has the same schedule."""
    then = folder.config(like=config).schedule
    return None if then is None or then == config.schedule else ends_of(then.build())


def _recorded_spec(checkpoint: Checkpoint) -> DataSpec | None:
    """The form of the data a run was trained on, if it wrote it down."""
    record = checkpoint.state.get("data")
    if not isinstance(record, dict):
        return None
    try:
        return DataSpec.recorded(record)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"checkpoint {checkpoint.path} has no data that can be: {error}"
        ) from None


def _checkpoint(folder: RunFolder, wanted: str | int, part: str) -> Checkpoint:
    found = checkpoints(folder.checkpoints)
    if not found:
        raise ElbowroomError(f"{folder.path} has no checkpoint yet: train it further")
    if wanted in ("best", "last"):
        order = best_first(found) if wanted == "best" else found[::-1]
        if good := next(undamaged(order, part), None):
            return good
        raise ElbowroomError(f"every checkpoint of {folder.path} is damaged")
    for one in found:
        if str(one.step) == str(wanted):
            return one
    steps = ", ".join(str(one.step) for one in found)
    raise ElbowroomError(f"no checkpoint {wanted!r} in {folder.path}: choose best, last or {steps}")


@attrs.frozen(eq=False)
class SampleReport:
    """What ``sample`` did and where everything went."""

    paths: Mapping[str, Path]  # "samples", and "grid" and "animation" where there are pictures
    count: int
    step: int  # of the checkpoint
    seconds: float  # of sampling alone
    calls_mean: float  # network calls a sample
    calls_most: int

    def plain(self) -> dict[str, Any]:
        """The same as JSON data."""
        fields = attrs.asdict(self, recurse=False)
        return {**fields, "paths": {name: str(path) for name, path in self.paths.items()}}


def sample_run(
    run: str | PathLike[str],
    overrides: Any = (),
    *,
    count: int = 64,
    labels: Labels = None,
    seed: int = 0,
    batch_size: int = 64,
    out: str | PathLike[str] | None = None,
    checkpoint: str | int = "best",
    device: torch.device | str | None = None,
    precision: str = "float32",
    trust: bool = False,
    progress: Callable[[int, Frame], None] | None = None,
) -> SampleReport:
    """Draw from a run into ``out`` (RUN/samples): samples.npz, and grid.png and reverse.gif.

    On ``device``, or what there is; ``precision`` bfloat16 runs the network in it, as in training.
    """
    check_precision(precision)
    loaded = load_run(run, overrides, checkpoint, device=device, trust=trust)
    folder = Path(out) if out is not None else loaded.folder.path / "samples"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ElbowroomError(f"cannot make the folder {folder}: {error.strerror}") from error
    return _into(
        folder,
        loaded,
        count=count,
        labels=labels,
        seed=seed,
        batch_size=batch_size,
        precision=precision,
        progress=progress,
    )


def _into(
    folder: Path,
    loaded: Loaded,
    *,
    count: int,
    labels: Labels,
    seed: int,
    batch_size: int,
    precision: str,
    progress: Callable[[int, Frame], None] | None,
) -> SampleReport:
    import numpy as np

    model, data = loaded.model, loaded.model.process.data
    check_samples(count, data)
    film = Film(model) if has_picture(data.shape) else None
    shown: list[float] = []  # seconds spent on drawing, which is not sampling

    def watch(first: int, frame: Frame) -> None:
        if film is not None and first == 0:
            began = time.perf_counter()
            film.show(frame)
            shown.append(time.perf_counter() - began)
        if progress is not None:
            progress(first, frame)

    began = time.perf_counter()
    with working(model, precision=precision):
        parts = list(draw(model, count, labels, seed, batch_size, watch=watch))
    seconds = time.perf_counter() - began - sum(shown)

    x = torch.cat([part.x for part in parts])
    calls = torch.cat([part.calls for part in parts])
    about: dict[str, Any] = {"seed": seed, "step": loaded.checkpoint.step, "levels": data.levels}
    about["precision"] = precision
    if data.names is not None:
        about["names"] = data.names
    arrays: dict[str, Any] = {
        "x": x.numpy().astype(np.min_scalar_type(data.levels - 1)),
        "calls": calls.numpy(),
        "about": np.array(json.dumps({**about, "sampler": str(model.sampler)})),
    }
    told = [part.labels for part in parts if part.labels is not None]
    if told:
        arrays["labels"] = torch.cat(told).numpy()
    paths = {"samples": folder / "samples.npz"}
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    write_atomically(paths["samples"], content.getvalue())
    if film is not None:
        captions = _captions(data, arrays.get("labels"))
        grid = tiled(pixels(x[:_SHOWN], data.levels), captions=captions)
        paths["grid"] = save_png(grid, folder / "grid.png")
        paths["animation"] = film.save(folder / "reverse.gif")
    return SampleReport(
        paths,
        count,
        loaded.checkpoint.step,
        seconds,
        float(calls.double().mean()),
        int(calls.max()),
    )


def _captions(data: DataSpec, labels: Sequence[int] | None) -> list[str] | None:
    """What stands below each picture of the grid: its class, where classes have names."""
    if data.names is None or labels is None:
        return None
    return [data.class_name(int(label)) for label in labels[:_SHOWN]]


class Film:
    """The path of the first samples as an animation, drawn as its frames pass."""

    def __init__(self, model: Diffusion, limit: int = 48) -> None:
        self._process = model.process
        self._animation = Animation(limit)
        self._last: Tensor | None = None

    def show(self, frame: Frame) -> None:
        """Take a frame in."""
        if frame.x is not None:
            self._last = tiled(pixels(frame.x[:_SHOWN], self._process.data.levels))
        elif self._animation.wants_next():
            self._animation.add(self._picture(frame.z[:_SHOWN]))
        else:
            self._animation.skip()

    def _picture(self, z: Tensor) -> Tensor:
        # decoded as if it were data already: noise looks like noise, hidden tokens stay hidden
        clear = Level.at(torch.full((), torch.inf, dtype=torch.float64), self._process)
        noise = Noise.of(0, len(z), device=z.device)
        seen = self._process.decode(z, None, clear.over(z, torch.float32), noise)
        return tiled(pixels(seen, self._process.data.levels))

    def save(self, path: Path) -> Path:
        """Write the GIF of a finished path."""
        assert self._last is not None, "the path has not ended"
        return self._animation.save(path, self._last)

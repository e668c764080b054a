"""Draw samples from a run into files."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import attrs
import torch
from elbowroom import DataSpec, ElbowroomError, Frame, Samples
from elbowroom.files import write_atomically
from elbowroom.plugins.training.precision import check_precision, model_on
from elbowroom.plugins.training.ranks import LONG, Ranks, process_group
from elbowroom.registry import trusting
from elbowroom.runs import Loaded, load_run
from torch import Tensor

from .completions import marked_texts, save_completions, save_text_film
from .drawing import Labels, draw, from_tensors, join, to_tensors
from .given import GivenExamples, completion_method, prompt_examples
from .picture import has_picture, pixels, save_gif, save_png, tiled
from .read_given import read_given
from .recorder import Recorder
from .rows import as_csv, decode_rows
from .texts import numbered

_FRAMES = 48  # of the animation, plus the last
_FILE = "samples.npz"
_COUNT = 64  # samples by default
_EACH = 4  # completions of each given example by default
_ROWS = 16  # examples of a split that are completed
_WRITTEN = 4  # texts whose writing is recorded
_SHOWN = 64  # images in the grid and in the animation
_GRID_WIDTH = 600  # pixels, at least


@attrs.frozen(eq=False)
class SampleReport:
    """Paths and statistics of drawn samples."""

    paths: Mapping[str, Path]  # "samples"; "grid" and "animation" of images, "texts", "rows"
    count: int
    step: int  # of the checkpoint
    seconds: float  # of sampling only
    calls_mean: float  # network calls per sample
    calls_most: int
    used: Mapping[str, Any] = attrs.Factory(dict)  # run, step, ema, sampler, steps, seed, ...

    def record(self) -> dict[str, Any]:
        """As JSON data."""
        fields = attrs.asdict(self, recurse=False)
        return {**fields, "paths": {name: str(path) for name, path in self.paths.items()}}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> SampleReport:
        """Inverse of :meth:`record`."""
        paths = {name: Path(path) for name, path in record["paths"].items()}
        return cls(**{**record, "paths": paths})


def sample_run(
    run: str | PathLike[str],
    overrides: Any = (),
    *,
    count: int | None = None,
    labels: Labels = None,
    given: str | None = None,
    keep: str | None = None,
    prompt: str | None = None,
    seed: int = 0,
    batch_size: int = 64,
    out: str | PathLike[str] | None = None,
    checkpoint: str | int = "best",
    device: torch.device | str | None = None,
    precision: str = "float32",
    trust: bool = False,
    overwrite: bool = True,
    progress: Callable[[int, Frame], None] | None = None,
) -> SampleReport:
    """Draw samples into the folder ``out`` (default: RUN/samples): samples.npz, images or texts.

    An ``out`` that ends in .npz is a single file in ADM's format. Without ``overwrite``, existing
    samples raise an error before any sample is drawn. Under ``torchrun`` every rank calls this and
    draws its part; the first rank writes, and all return the report.
    """
    check_precision(precision)
    with (
        trusting(trust),
        process_group(device, LONG) as ranks,
    ):  # also for the run of a guidance network
        loaded = load_run(run, overrides, checkpoint, device=ranks.device)
        known, classes, before = _given(loaded, count, given, keep, prompt, seed)
        if count is None:
            count = _COUNT if known is None else _EACH * len(known.x)
        folder = Path(out) if out is not None else loaded.folder.path / "samples"
        ranks.first(lambda: _create_folder(folder, overwrite))
        return _into(
            folder,
            loaded,
            ranks,
            count=count,
            labels=classes if labels is None else labels,
            given=known,
            before=before,
            seed=seed,
            batch_size=batch_size,
            precision=precision,
            progress=progress,
        )


def _given(
    loaded: Loaded,
    count: int | None,
    given: str | None,
    keep: str | None,
    prompt: str | None,
    seed: int,
) -> tuple[GivenExamples | None, Tensor | None, str]:
    """Examples to complete, their labels, and the part of a prompt before the window."""
    data = loaded.model.process.data
    if prompt is not None:
        if given is not None or keep is not None:
            raise ElbowroomError("--prompt: use it without --given and --keep")
        known, before = prompt_examples(prompt, data)
        return known, None, before
    if (given is None) != (keep is None):
        raise ElbowroomError("--given and --keep: use both, or neither")
    if given is None or keep is None:
        return None, None, ""
    most = min(count or _ROWS, _ROWS)
    return *read_given(given, keep, data, loaded.parts.dataset, most, seed), ""


def _create_folder(folder: Path, overwrite: bool) -> None:
    file = folder if _is_file(folder) else folder / _FILE
    if not overwrite and file.exists():
        raise ElbowroomError(
            f"{file} exists already. Use --overwrite to replace it, or another --out."
        )
    folder = file.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ElbowroomError(f"cannot create the folder {folder}: {error.strerror}") from error


def _into(
    folder: Path,
    loaded: Loaded,
    ranks: Ranks,
    *,
    count: int,
    labels: Labels,
    given: GivenExamples | None,
    before: str,
    seed: int,
    batch_size: int,
    precision: str,
    progress: Callable[[int, Frame], None] | None,
) -> SampleReport:
    model, data = loaded.model, loaded.model.process.data
    shows = has_picture(data.shape)
    if _is_file(folder) and not shows:
        raise ElbowroomError(f"--out {folder}: data of shape {data.shape} are not images")
    filmed = (shows or data.tokens is not None) and not _is_file(folder)
    film = Recorder(model.process, _SHOWN if shows else _WRITTEN, _FRAMES) if filmed else None
    recording: list[float] = []  # seconds, not counted as sampling

    def watch(first: int, frame: Frame) -> None:
        if film is not None and first == 0:
            began = time.perf_counter()
            film.show(frame)
            recording.append(time.perf_counter() - began)
        if progress is not None:
            progress(first, frame)

    about: dict[str, Any] = {"seed": seed, "precision": precision}
    if given is not None:
        about["given"] = completion_method(model)
    if files := {} if model.sampler is None else dict(model.sampler.grid.made_from()):
        about["made_from"] = files  # hashed before sampling
    began = time.perf_counter()
    part = (ranks.rank, ranks.world)
    with model_on(model, ranks.device, precision):
        mine = list(
            draw(model, count, labels, seed, batch_size, part=part, watch=watch, given=given)
        )
        found = gathered(mine, ranks)
    seconds = time.perf_counter() - began - sum(recording)
    written = ranks.first(
        lambda: _written(folder, loaded, join(found), about, film, seconds, given, before).record()
    )
    return SampleReport.of_record(written)


def gathered(mine: Sequence[Samples], ranks: Ranks) -> list[Samples]:
    """The samples of all ranks in order, on the first rank; an empty list on the others."""
    if ranks.world == 1:
        return list(mine)
    parts = ranks.gather_tensors(to_tensors(join(mine)) if mine else {})
    return [from_tensors(part) for part in parts if part]


def _written(
    folder: Path,
    loaded: Loaded,
    drawn: Samples,
    protocol: Mapping[str, Any],
    film: Recorder | None,
    seconds: float,
    given: GivenExamples | None,
    before: str,
) -> SampleReport:
    """Write all samples and images of some; return the report."""
    import numpy as np

    model, data = loaded.model, loaded.model.process.data
    x, calls, labels = drawn.x, drawn.calls, drawn.labels
    mean, most = float(calls.double().mean()), int(calls.max())
    made = (len(calls), loaded.checkpoint.step, seconds, mean, most, _used(loaded, protocol))
    if _is_file(folder):
        return SampleReport({"samples": _write_images(folder, drawn, data)}, *made)
    about: dict[str, Any] = {
        "seed": protocol["seed"],
        "step": loaded.checkpoint.step,
        "levels": data.levels,
        "precision": protocol["precision"],
    }
    if data.names is not None:
        about["names"] = data.names
    if "made_from" in made[-1]:
        about["made_from"] = made[-1]["made_from"]
    arrays: dict[str, Any] = {
        "x": x.numpy().astype(np.min_scalar_type(data.levels - 1)),
        "calls": calls.numpy(),
        "about": np.array(json.dumps({**about, "sampler": str(model.sampler)})),
    }
    if labels is not None:
        arrays["labels"] = labels.numpy()
    paths = {"samples": folder / _FILE}
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    write_atomically(paths["samples"], content.getvalue())
    if data.parts:
        paths["rows"] = folder / "samples.csv"
        rows = decode_rows(data, x, labels, protocol["seed"])
        write_atomically(paths["rows"], as_csv(rows).encode())
    if data.tokens is not None:
        paths["texts"] = folder / "samples.txt"
        texts = data.texts(x) if given is None else marked_texts(x, given, data, before)
        write_atomically(paths["texts"], numbered(texts).encode())
        if film is not None:
            paths |= save_text_film([frame for _, frame in film.frames()], given, data, folder)
    if has_picture(data.shape) and given is not None:
        paths["completions"] = save_completions(x, given, data, folder)
    if film is not None and has_picture(data.shape):
        captions = _captions(data, arrays.get("labels"))
        grid = tiled(pixels(x[:_SHOWN], data.levels), captions=captions, least_width=_GRID_WIDTH)
        paths["grid"] = save_png(grid, folder / "grid.png")
        images = [tiled(frame) for _, frame in film.frames()]
        paths["animation"] = save_gif(images, folder / "reverse.gif")
    return SampleReport(paths, *made)


def _is_file(out: Path) -> bool:
    return out.suffix == ".npz"


def _write_images(file: Path, drawn: Samples, data: DataSpec) -> Path:
    """Write ADM's format: arr_0, uint8 [N, H, W, 3], and arr_1, the labels [N]."""
    import numpy as np

    arrays = [pixels(drawn.x, data.levels).numpy()]
    if drawn.labels is not None:
        arrays.append(drawn.labels.numpy())
    content = io.BytesIO()
    np.savez(content, *arrays)
    write_atomically(file, content.getvalue())
    return file


def _used(loaded: Loaded, protocol: Mapping[str, Any]) -> dict[str, Any]:
    """Origin of the samples: run, step, average and sampler."""
    config, sampler = loaded.parts.config, loaded.model.sampler
    assert config.sampler is not None and sampler is not None, "samples were drawn"
    run = {"run": str(loaded.folder.path), "step": loaded.checkpoint.step, "ema": config.train.ema}
    steps = sampler.count_steps(loaded.model)
    return {**run, "sampler": config.sampler.name, "steps": steps, **protocol}


def _captions(data: DataSpec, labels: Sequence[int] | None) -> list[str] | None:
    """Class names of the samples in the grid, if classes have names."""
    if data.names is None or labels is None:
        return None
    return [data.class_name(int(label)) for label in labels[:_SHOWN]]

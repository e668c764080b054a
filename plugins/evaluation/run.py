"""Evaluate a run and write the measurements.

RUN/evaluation/
  figures.json     measurements with their protocol and values of real data; metrics that were
                   skipped or failed, and why
  details/         further results of metrics, a file each
  samples.png      the first samples that ``sample`` draws
  reverse.png      their reverse process, frames side by side
  shards/          samples of an unfinished evaluation, which is resumed from them
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import attrs
import torch
from elbowroom import Dataset, Diffusion, ElbowroomError
from elbowroom.config import build_parts, to_plain
from elbowroom.files import JSONFileError, finite, is_count, read_json, replace_file
from elbowroom.plugins.sampling.drawing import draw
from elbowroom.plugins.sampling.filmstrip import Filmstrip, save_small_png
from elbowroom.plugins.sampling.picture import has_picture
from elbowroom.plugins.training.precision import model_on
from elbowroom.plugins.training.ranks import LONG, process_group
from elbowroom.registry import trusting
from elbowroom.runs import Loaded, load_run

from .details import write_details
from .evaluation import Evaluation, evaluate
from .measuring import Progress
from .metric import EVALUATION_BATCH
from .protocol import EvaluationProtocol
from .shards import Shards

_TEXTS = 8  # text samples in the record
FORMAT = 2  # 1: samples had every class equally often


@attrs.frozen(eq=False)
class EvaluationReport:
    """Measurements of a run and their folder."""

    folder: Path
    record: Mapping[str, Any]  # figures.json

    @property
    def measurements(self) -> Mapping[str, Mapping[str, Any]]:
        """Name -> value, standard_error, floor, of."""
        found: Mapping[str, Mapping[str, Any]] = self.record["figures"]
        return found

    @property
    def failed(self) -> Mapping[str, str]:
        """Metric -> error."""
        found: Mapping[str, str] = self.record["failed"]
        return found


def evaluation_folder(run: str | PathLike[str], overrides: Iterable[str] = ()) -> Path:
    """Return the folder of an evaluation; each set of overrides has its own."""
    words = sorted(overrides)
    tail = f"-{hashlib.sha256(json.dumps(words).encode()).hexdigest()[:8]}" if words else ""
    return Path(run) / f"evaluation{tail}"


def evaluate_run(
    run: str | PathLike[str],
    overrides: Sequence[str] = (),
    protocol: EvaluationProtocol | None = None,
    *,
    out: str | PathLike[str] | None = None,
    batch_size: int = EVALUATION_BATCH,
    device: torch.device | str | None = None,
    trust: bool = False,
    keep_samples: bool = False,
    progress: Progress = lambda *_: None,
) -> EvaluationReport:
    """Evaluate the averaged weights of a run and write the results.

    Under ``torchrun`` every rank calls this; the first rank writes, and all return the report. A
    killed evaluation resumes with the samples already drawn, which are deleted in the end unless
    ``keep_samples`` is set.
    """
    protocol = protocol or EvaluationProtocol()
    folder = Path(out) if out is not None else evaluation_folder(run, overrides)
    with (
        trusting(trust),
        process_group(device, LONG) as ranks,
    ):  # also for the run of a guidance network
        loaded = load_run(run, overrides, protocol.checkpoint, device=ranks.device)
        config = loaded.parts.config
        data = build_parts(config).dataset()
        _check_form(data, loaded)
        average = "EMA" if not config.train.ema_also else f"EMA of {config.train.ema}"
        weights = f"{average} at step {loaded.checkpoint.step}"
        of = {"run": loaded.folder.path.name, "weights": weights}
        of |= {} if config.data is None else {"data": config.data.name}
        about = {"overrides": list(overrides), "config": to_plain(config)}
        about["made_from"] = _made_from(loaded.model)
        depends = {"config": about["config"], "precision": protocol.precision}
        shards = Shards(folder / "shards", depends)
        found = evaluate(
            loaded.model,
            data,
            protocol,
            batch_size=batch_size,
            device=ranks.device,
            of=of,
            ranks=ranks,
            shards=shards,
            progress=progress,
        )
        record = ranks.first(lambda: _written(folder, loaded, protocol, found, about, progress))
        if ranks.is_first and not keep_samples:
            shards.clear()
    return EvaluationReport(folder, record)


def _made_from(model: Diffusion) -> dict[str, str]:
    """Digests of the files that samples depend on; a missing file is reported when sampling."""
    try:
        return {} if model.sampler is None else dict(model.sampler.grid.made_from())
    except ElbowroomError:
        return {}


def _written(
    folder: Path,
    loaded: Loaded,
    protocol: EvaluationProtocol,
    found: Evaluation,
    about: Mapping[str, Any],
    progress: Progress,
) -> dict[str, Any]:
    """Write figures.json, details and images; return the record."""
    model = loaded.model
    of = {
        "format": FORMAT,
        "step": loaded.checkpoint.step,
        "overrides": about["overrides"],
        "protocol": protocol.record(),
    }
    record: dict[str, Any] = {
        **of,
        "parameters": sum(p.numel() for p in model.denoiser.parameters()),
        "train_seconds": loaded.checkpoint.state.seconds,
        **found.record(),
        "reverse": None,
        "texts": None,
        "config": about["config"],
    }
    if found.calls_mean is not None:
        record["made_from"] = about["made_from"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if found.calls_mean is not None and has_picture(model.process.data.shape):
            progress("drawing images", 0, 1)
            with model_on(model, precision=protocol.precision):
                record["reverse"] = _draw_images(model, protocol.seed, folder)
        if model.sampler is not None and model.process.data.tokens is not None:
            progress("drawing texts", 0, 1)
            with model_on(model, precision=protocol.precision):
                x = next(iter(draw(model, _TEXTS, None, protocol.seed, _TEXTS))).x
            record["texts"] = model.process.data.texts(x)
        write_details(folder, {**of, "config": about["config"]}, found.details)
        replace_file(folder / "figures.json", json.dumps(finite(record), indent=1).encode())
    except OSError as error:
        raise ElbowroomError(f"cannot write to {folder}: {error.strerror}") from error
    return record


def _check_form(data: Dataset, run: Loaded) -> None:
    """Raise if the data does not have the shape the model was trained on."""
    made_for = run.model.process.data
    if not data.spec.fits(made_for):
        raise ElbowroomError(
            f"data: examples have the shape {data.spec.shape} and {data.spec.levels} levels, but "
            f"{run.checkpoint.path} was trained on {made_for.shape} and {made_for.levels}, or on "
            "other tokens"
        )


def _draw_images(model: Diffusion, seed: int, folder: Path) -> dict[str, Any]:
    """Draw the first samples that ``sample`` draws, and their reverse process."""
    filmstrip = Filmstrip(model.process)
    for _ in draw(
        model,
        filmstrip.count,
        None,
        seed,
        filmstrip.count,
        watch=lambda _, one: filmstrip.show(one),
    ):
        pass
    sheet = filmstrip.sheet()
    high, wide, _ = sheet.picture.shape
    one = wide // sheet.frames
    save_small_png(sheet.picture, folder / "reverse.png")
    save_small_png(sheet.picture[:, -one:], folder / "samples.png")
    about = {"frames": sheet.frames, "steps": sheet.steps, "width": one, "height": high}
    return {**about, "classes": filmstrip.class_names()}


def read_evaluation(folder: str | PathLike[str]) -> dict[str, Any] | None:
    """Read the record of an evaluation folder; None if there is none or it is incomplete."""
    try:
        record = read_json(Path(folder) / "figures.json")
    except JSONFileError:
        return None
    return record if isinstance(record, dict) and _is_complete(record) else None


def _is_complete(record: Mapping[str, Any]) -> bool:
    """Return whether a record has all required fields."""
    names = ("figures", "skipped", "failed", "protocol", "seconds")
    maps: list[Any] = [record.get(name) for name in names]
    return (
        record.get("format") == FORMAT
        and is_count(record.get("step"))
        and all(isinstance(one, dict) for one in maps)
        and all(isinstance(one, dict) and one.keys() >= _REQUIRED for one in maps[0].values())
    )


_REQUIRED = {"value", "standard_error", "better", "floor", "of"}

"""Measuring a run: its measurements and two pictures, written beside it.

RUN/evaluation/
  figures.json     every measurement, its protocol, what real data gets, what was left out or failed
                   and why
  details/         what a metric found beside its measurements, a file each; an evaluation without
                   the metric leaves it there
  samples.png      samples with every class in turn, the first that ``sample`` draws
  reverse.png      their way from noise to data, frames beside each other
  shards/          while it is under way: the samples so far, for a killed evaluation to go on
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

_TEXTS = 8  # samples that are text, for people
FORMAT = 2  # 1: samples had every class equally often


@attrs.frozen(eq=False)
class EvaluationReport:
    """What ``evaluate`` found of a run and where everything went."""

    folder: Path
    record: Mapping[str, Any]  # figures.json

    @property
    def measurements(self) -> Mapping[str, Mapping[str, Any]]:
        """Name -> value, standard_error, floor, of."""
        found: Mapping[str, Mapping[str, Any]] = self.record["figures"]
        return found

    @property
    def failed(self) -> Mapping[str, str]:
        """Metric -> what went wrong in it."""
        found: Mapping[str, str] = self.record["failed"]
        return found


def evaluation_folder(run: str | PathLike[str], overrides: Iterable[str] = ()) -> Path:
    """Where the evaluation of a run goes; each set of overrides has a folder of its own."""
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
    """Evaluate the averaged weights of a run and write down what was found.

    Under ``torchrun`` every rank calls this; the first writes, and all are told. One that is killed
    goes on with the samples it had drawn, which are kept until it is whole (``keep_samples``: also
    then).
    """
    protocol = protocol or EvaluationProtocol()
    folder = Path(out) if out is not None else evaluation_folder(run, overrides)
    with trusting(trust), process_group(device, LONG) as ranks:  # also for a guide's run
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
        asked = {"config": about["config"], "precision": protocol.precision}
        shards = Shards(folder / "shards", asked)
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
    """The files that samples depend on, as they are before any is drawn.

    One that is missing matters only where samples are drawn, and drawing says so.
    """
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
    """Write figures.json, details and the pictures; the record that was written."""
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
            progress("drawing pictures", 0, 1)
            with model_on(model, precision=protocol.precision):
                record["reverse"] = _draw_pictures(model, protocol.seed, folder)
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
    """Refuse data that the model was not made for, before every metric stumbles over it."""
    made_for = run.model.process.data
    if not data.spec.fits(made_for):
        raise ElbowroomError(
            f"data: examples have the shape {data.spec.shape} and {data.spec.levels} levels, and "
            f"{run.checkpoint.path} was trained on {made_for.shape} and {made_for.levels}, or on "
            "other tokens"
        )


def _draw_pictures(model: Diffusion, seed: int, folder: Path) -> dict[str, Any]:
    """A few samples with every class in turn, and their way: the first that ``sample`` draws."""
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
    """What was written in an evaluation's folder; None where there is nothing whole."""
    try:
        record = read_json(Path(folder) / "figures.json")
    except JSONFileError:
        return None
    return record if isinstance(record, dict) and _is_whole(record) else None


def _is_whole(record: Mapping[str, Any]) -> bool:
    """Has it what every evaluation has?"""
    names = ("figures", "skipped", "failed", "protocol", "seconds")
    maps: list[Any] = [record.get(name) for name in names]
    return (
        record.get("format") == FORMAT
        and is_count(record.get("step"))
        and all(isinstance(one, dict) for one in maps)
        and all(isinstance(one, dict) and one.keys() >= _MEASUREMENT for one in maps[0].values())
    )


_MEASUREMENT = {"value", "standard_error", "better", "floor", "of"}

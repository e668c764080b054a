"""Evaluation: figures of a model, each with its protocol beside it.

    RUN/evaluation/
      figures.json     every figure, what it is of, what real data gets, what was left out or failed
                       and why
      samples.png      samples with every class in turn, the first that ``sample`` draws
      reverse.png      their way from noise to data, frames beside each other

Samples are drawn in chunks, shown to every metric and forgotten: memory does not depend on how many
there are. Where the data have labels, the samples' are as frequent as the test split's. Which
metrics there are is the plugins' affair; this file knows none of them. One that fails says so in
its place and costs the others nothing.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from os import PathLike
from pathlib import Path
from typing import Any

import attrs
import torch
from torch import Tensor

from ..config.assembly import build_parts
from ..config.schema import options_of
from ..config.sections import Config, component_spec, parse_spec, to_plain
from ..config.sizes import check_labels
from ..config.spec import ComponentSpec
from ..conformance.answers import check_figures, untouched
from ..contracts.dataset import Dataset
from ..contracts.metric import EVALUATION_BATCH, Figure, Metric, Subject, as_figure
from ..errors import ElbowroomError, IncompatibleError, PluginError
from ..files.atomic import replace_file
from ..files.json_file import JSONFileError, finite, is_count, read_json
from ..objective.diffusion import Diffusion
from ..randomness.noise import Noise
from ..registry.component import cause
from ..registry.components import installed
from ..runs.load import Loaded, load_run
from ..runs.working import Precision, check_precision, working
from ..sampling.drawing import draw, evaluating
from ..sampling.filmstrip import Reel, save_small_png
from ..sampling.picture import has_picture

FORMAT = 2  # 1: samples had every class equally often
Progress = Callable[[str, int, int], None]
"""(what is being done, how much is done, of how much)"""


@attrs.frozen(kw_only=True)
class EvaluationProtocol:
    """How a model is evaluated: two figures are comparable where this agrees."""

    metrics: tuple[Any, ...] = ()  # names or mappings; none: the usual ones
    features: str | None = None  # feature network of all metrics that use one
    samples: int = attrs.field(default=1000, validator=attrs.validators.ge(2))
    seed: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    checkpoint: str = "best"  # or "last", or a step
    precision: Precision = attrs.field(
        default="float32", validator=lambda _, __, value: check_precision(value)
    )

    def record(self) -> dict[str, Any]:
        """The same as JSON data."""
        return {**attrs.asdict(self), "metrics": list(self.metrics)}

    def build(self) -> dict[str, Metric]:
        """The metrics by name; the second of a name, whose figures are others, is ``name 2``."""
        built: dict[str, Metric] = {}
        specs: list[ComponentSpec] = []
        for given in self.metrics or usual_metrics():
            spec = self._spec(given)
            metric: Metric = spec.build()
            same = [one for one in specs if one.name == spec.name]
            if same and (spec in same or metric.display):  # they would say the same figures
                raise ElbowroomError(f"metric {spec.name} is named twice")
            built[f"{spec.name} {len(same) + 1}" if same else spec.name] = metric
            specs.append(spec)
        return built

    def _spec(self, given: Any) -> ComponentSpec:
        wanted = parse_spec(given) if isinstance(given, str) else given
        spec = component_spec("metric", wanted, path="--metric")
        if self.features is None or spec.component is None:
            return spec
        says = isinstance(wanted, Mapping) and "features" in wanted
        if says or "features" not in options_of(spec.cls):
            return spec
        named = {"name": wanted} if isinstance(wanted, str) else dict(wanted)
        return component_spec("metric", {**named, "features": self.features}, path="--metric")


def usual_metrics() -> list[str]:
    """What is measured where nothing is named; those that do not fit the data are left out."""
    places = {}
    for name, component in installed().components("metric").items():
        with suppress(PluginError):  # one that cannot be loaded: ``elbowroom plugins`` says why
            places[name] = vars(component.load()).get("usual")
    return sorted((n for n, at in places.items() if at is not None), key=lambda n: places[n])


@attrs.frozen(eq=False)
class Evaluation:
    """What was found."""

    figures: Mapping[str, Figure]
    skipped: Mapping[str, str]  # metric -> why it says nothing
    failed: Mapping[str, str]  # metric -> what went wrong in it
    calls_mean: float | None  # network calls a sample; None: none was drawn
    seconds: Mapping[str, float]  # of sampling and of everything else

    def record(self) -> dict[str, Any]:
        """The same as JSON data."""
        return {
            "figures": {name: figure.record() for name, figure in self.figures.items()},
            "skipped": dict(self.skipped),
            "failed": dict(self.failed),
            "calls_mean": self.calls_mean,
            "seconds": {name: round(value, 2) for name, value in self.seconds.items()},
        }


def evaluate(
    model: Diffusion,
    data: Dataset,
    protocol: EvaluationProtocol | None = None,
    *,
    batch_size: int = EVALUATION_BATCH,
    device: torch.device | str | None = None,
    of: Mapping[str, Any] | None = None,
    progress: Progress = lambda *_: None,
) -> Evaluation:
    """The figures of a model against a data set.

    On ``device``, or the accelerator the model is on, or what there is. ``of`` is what every figure
    shall say of the model.
    """
    protocol = protocol or EvaluationProtocol()
    check_labels(protocol.samples)
    with working(model, device, protocol.precision) as there:
        subject = Subject(data, model, protocol.seed, batch_size, there)
        return _found(subject, model, protocol, of or {}, progress)


def _found(
    subject: Subject,
    model: Diffusion,
    protocol: EvaluationProtocol,
    of: Mapping[str, Any],
    progress: Progress,
) -> Evaluation:
    data, batch_size = subject.data, subject.batch_size
    began = time.perf_counter()
    metrics, skipped, failed = _prepared(protocol, subject, progress)
    drawing = {name: m for name, m in metrics.items() if m.uses_samples}
    if drawing and model.sampler is None:
        raise ElbowroomError("sampler: samples cannot be drawn, since the config names no sampler")

    calls, spent, seen = 0.0, 0.0, 0
    if drawing:
        progress("drawing samples", 0, protocol.samples)
        labels = labels_like(data, protocol.samples, protocol.seed, batch_size)
        clock = time.perf_counter()
        for chunk in draw(model, protocol.samples, labels, protocol.seed, batch_size):
            spent += time.perf_counter() - clock
            calls += float(chunk.calls.double().sum())
            seen += len(chunk.x)
            for name, metric in drawing.items():
                if name not in failed:
                    with (  # one that changes the samples spoils the others' figures: it is raised
                        nullcontext() if chunk.first else untouched(metric, chunk.x),
                        _on_its_own(name, failed),
                    ):
                        metric.update(chunk.x, chunk.labels)
            if drawing.keys() <= failed.keys():
                break  # nobody looks any more
            progress("drawing samples", chunk.first + len(chunk.x), protocol.samples)
            clock = time.perf_counter()

    figures: dict[str, Figure] = {}
    drawn = {"samples": protocol.samples, "sampler": _sampler(model)} if drawing else {}
    if drawing and data.spec.classes is not None:
        drawn["labels"] = "as often as in test"
    for k, (name, metric) in enumerate(metrics.items()):
        if name in failed:
            continue
        progress(f"computing {name}", k, len(metrics))
        common = {**of, **(drawn if metric.uses_samples else {}), "seed": protocol.seed}
        if protocol.precision != "float32":
            common["precision"] = protocol.precision
        with _on_its_own(name, failed), evaluating(model):
            answer = check_figures(metric, metric.compute())
            said = {key: as_figure(value) for key, value in answer.items()}
            if twice := said.keys() & figures.keys():
                raise ElbowroomError(f"it says {min(twice)!r}, as another metric does")
            figures |= {
                key: attrs.evolve(figure, of={"metric": name, **figure.of, **common})
                for key, figure in said.items()
            }
    whole = time.perf_counter() - began
    return Evaluation(
        figures,
        skipped,
        failed,
        calls / seen if seen else None,
        {"sampling": spent, "rest": whole - spent},
    )


def _prepared(
    protocol: EvaluationProtocol, subject: Subject, progress: Progress
) -> tuple[dict[str, Metric], dict[str, str], dict[str, str]]:
    """The metrics that fit, why others do not, and what failed.

    One that was asked for by name must fit, and what the user can mend is said before any sample is
    drawn: these are raised.
    """
    fitting: dict[str, Metric] = {}
    skipped: dict[str, str] = {}
    failed: dict[str, str] = {}
    built = protocol.build()
    for k, (name, metric) in enumerate(built.items()):
        progress(f"preparing {name}", k, len(built))
        try:
            metric.prepare(subject)
        except IncompatibleError as error:
            if protocol.metrics:
                raise
            skipped[name] = str(error)
        except ElbowroomError:
            raise
        except Exception as error:
            failed[name] = cause(error)
        else:
            fitting[name] = metric
    return fitting, skipped, failed


@contextmanager
def _on_its_own(name: str, failed: dict[str, str]) -> Iterator[None]:
    """What goes wrong in a metric is written down, the first time, and harms no other."""
    try:
        yield
    except Exception as error:
        failed.setdefault(name, str(error) if isinstance(error, ElbowroomError) else cause(error))


def labels_like(
    data: Dataset, count: int, seed: int, batch_size: int = EVALUATION_BATCH
) -> Tensor | None:
    """[count] labels as often as in the data: each is that of a test example drawn at random.

    The draw is keyed by (seed, number of the sample), so a sample's label does not depend on how
    many are drawn. None where the data have no labels.
    """
    if data.spec.classes is None:
        return None
    split = data.split("test") if len(data.split("test")) else data.split("train")
    which = Noise(seed, torch.arange(count), count).integers("label", len(split))
    told = []
    for rows in which.split(batch_size):
        batch = split.take(rows)
        if batch.y is None:
            raise ElbowroomError("this data set says it has classes, and its test split no labels")
        told.append(batch.y.cpu())
    return torch.cat(told)


def _sampler(model: Diffusion) -> str:
    sampler = model.sampler
    assert sampler is not None
    return f"{type(sampler).__name__.lower()}, {sampler.steps} steps"


# -- a run


@attrs.frozen(eq=False)
class EvaluationReport:
    """What ``evaluate`` found of a run and where everything went."""

    folder: Path
    record: Mapping[str, Any]  # figures.json

    @property
    def figures(self) -> Mapping[str, Mapping[str, Any]]:
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
    progress: Progress = lambda *_: None,
) -> EvaluationReport:
    """Evaluate the averaged weights of a run and write down what was found."""
    protocol = protocol or EvaluationProtocol()
    loaded = load_run(run, overrides, protocol.checkpoint, device=device, trust=trust)
    config = loaded.folder.config(overrides)
    data = build_parts(config).data
    assert data is not None, "a run has data"
    _check_form(data, loaded)
    model = {"run": loaded.folder.path.name, "weights": f"EMA at step {loaded.checkpoint.step}"}
    found = evaluate(
        loaded.model,
        data,
        protocol,
        batch_size=batch_size,
        of=model,
        progress=progress,
    )
    folder = Path(out) if out is not None else evaluation_folder(run, overrides)
    record = {
        "format": FORMAT,
        "step": loaded.checkpoint.step,
        "overrides": list(overrides),
        "protocol": protocol.record(),
        "parameters": sum(p.numel() for p in loaded.model.denoiser.parameters()),
        "train_seconds": loaded.checkpoint.state.seconds,
        **found.record(),
        "reverse": None,
        "config": to_plain(config),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if found.calls_mean is not None and has_picture(data.spec.shape):
            progress("drawing pictures", 0, 1)
            with working(loaded.model, precision=protocol.precision):
                reel = _reel(loaded.model, protocol.seed)
            record["reverse"] = _save_reel(reel, folder)
        replace_file(folder / "figures.json", json.dumps(finite(record), indent=1).encode())
    except OSError as error:
        raise ElbowroomError(f"cannot write to {folder}: {error.strerror}") from error
    return EvaluationReport(folder, record)


def _check_form(data: Dataset, run: Loaded) -> None:
    """Refuse data that the model was not made for, before every metric stumbles over it."""
    made_for = run.model.process.data
    if (data.spec.shape, data.spec.levels) != (made_for.shape, made_for.levels):
        raise ElbowroomError(
            f"data: examples have the shape {data.spec.shape} and {data.spec.levels} levels, and "
            f"{run.checkpoint.path} was trained on {made_for.shape} and {made_for.levels}"
        )


def _reel(model: Diffusion, seed: int) -> Reel:
    """The way of a few samples with every class in turn: the first that ``sample`` draws."""
    reel = Reel(model.process)
    for _ in draw(model, reel.count, None, seed, reel.count, watch=lambda _, one: reel.show(one)):
        pass
    return reel


def _save_reel(reel: Reel, folder: Path) -> dict[str, Any]:
    sheet = reel.sheet()
    high, wide, _ = sheet.picture.shape
    one = wide // sheet.frames
    save_small_png(sheet.picture, folder / "reverse.png")
    save_small_png(sheet.picture[:, -one:], folder / "samples.png")
    return {
        "frames": sheet.frames,
        "steps": sheet.steps,
        "width": one,
        "height": high,
        "classes": reel.class_names(),
    }


def read_evaluation(folder: str | PathLike[str]) -> dict[str, Any] | None:
    """What was written in an evaluation's folder; None where there is nothing whole."""
    try:
        record = read_json(Path(folder) / "figures.json")
    except JSONFileError:
        return None
    return record if isinstance(record, dict) and _is_whole(record) else None


def _is_whole(record: Mapping[str, Any]) -> bool:
    """Has it what every evaluation has?"""
    maps = ("figures", "skipped", "protocol", "seconds")
    return (
        record.get("format") == FORMAT
        and is_count(record.get("step"))
        and all(isinstance(record.get(key), dict) for key in maps)
        and isinstance(record.get("failed", {}), dict)
        and all(isinstance(figure, dict) for figure in record["figures"].values())
        and all(figure.keys() >= _FIGURE for figure in record["figures"].values())
    )


_FIGURE = {"value", "standard_error", "better", "floor", "of"}


__all__ = [
    "Config",
    "Evaluation",
    "EvaluationProtocol",
    "EvaluationReport",
    "evaluate",
    "evaluate_run",
    "evaluation_folder",
    "labels_like",
    "read_evaluation",
    "usual_metrics",
]

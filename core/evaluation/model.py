"""Measuring a model: measurements, each with its protocol beside it.

Samples are drawn in chunks, shown to every metric and forgotten: memory does not depend on how many
there are. Where the data have labels, the samples' are as frequent as the test split's. A metric
that fails says so in its place and costs the others nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import attrs
import torch
from torch import Tensor

from ..config.sizes import check_labels
from ..conformance.answers import check_measurements, untouched
from ..contracts.dataset import Dataset
from ..contracts.metric import EVALUATION_BATCH, Measurement, Metric, Subject, as_measurement
from ..contracts.sampler import Frame
from ..errors import ElbowroomError, IncompatibleError
from ..objective.diffusion import Diffusion
from ..randomness.noise import Noise
from ..registry.component import cause
from ..runs.working import working
from ..sampling.drawing import draw, evaluating
from .protocol import EvaluationProtocol

Progress = Callable[[str, int, int], None]
"""(what is being done, how much is done, of how much)"""


@attrs.frozen(eq=False)
class Evaluation:
    """What was found."""

    measurements: Mapping[str, Measurement]
    skipped: Mapping[str, str]  # metric -> why it says nothing
    failed: Mapping[str, str]  # metric -> what went wrong in it
    calls_mean: float | None  # network calls a sample; None: none was drawn
    seconds: Mapping[str, float]  # of sampling and of everything else
    details: Mapping[str, Any] = attrs.Factory(dict)  # metric -> what it found beside measurements

    def record(self) -> dict[str, Any]:
        """The same as JSON data."""
        measurements = {
            name: measurement.record() for name, measurement in self.measurements.items()
        }
        seconds = {name: round(value, 2) for name, value in self.seconds.items()}
        rest = attrs.asdict(
            self, recurse=False, filter=lambda field, _: field.name != "measurements"
        )
        return {**rest, "figures": measurements, "seconds": seconds}

    @property
    def figures(self) -> Mapping[str, Measurement]:
        """The old name of ``measurements``."""
        return self.measurements


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
    """The measurements of a model against a data set.

    On ``device``, or the accelerator the model is on, or what there is. ``of`` is what every
    measurement shall say of the model.
    """
    protocol = protocol or EvaluationProtocol()
    check_labels(protocol.samples)
    began = time.perf_counter()
    with working(model, device, protocol.precision) as there:
        subject = Subject(data, model, protocol.seed, batch_size, there)
        at_work = _Measuring(subject, model, protocol, progress)
        at_work.prepare()
        calls, sampling = at_work.show_samples()
        measurements = at_work.measurements(of or {})
    seconds = {"sampling": sampling, "rest": time.perf_counter() - began - sampling}
    return Evaluation(
        measurements, at_work.skipped, at_work.failed, calls, seconds, at_work.details
    )


@attrs.define(eq=False)
class _Measuring:
    """The metrics of one evaluation at work: what goes wrong in one harms no other."""

    subject: Subject
    model: Diffusion
    protocol: EvaluationProtocol
    progress: Progress
    metrics: dict[str, Metric] = attrs.field(factory=dict)  # those that fit
    skipped: dict[str, str] = attrs.field(factory=dict)
    failed: dict[str, str] = attrs.field(factory=dict)
    details: dict[str, Any] = attrs.field(factory=dict)

    def prepare(self) -> None:
        """Find the metrics that fit.

        One that was asked for by name must, and what the user can mend is said before any sample is
        drawn: these are raised.
        """
        built = self.protocol.build()
        for k, (name, metric) in enumerate(built.items()):
            self.progress(f"preparing {name}", k, len(built))
            try:
                metric.prepare(self.subject)
            except IncompatibleError as error:
                if self.protocol.metrics:
                    raise
                self.skipped[name] = str(error)
            except ElbowroomError:
                raise
            except Exception as error:
                self.failed[name] = cause(error)
            else:
                self.metrics[name] = metric

    def show_samples(self) -> tuple[float | None, float]:
        """Draw samples for the metrics that use them: network calls a sample, and seconds."""
        count, size = self.protocol.samples, self.subject.batch_size
        calls, seen, spent = 0.0, 0, 0.0
        if not self._looking():
            return None, spent
        if self.model.sampler is None:
            raise ElbowroomError("sampler: the config names none, so samples cannot be drawn")
        self.progress("drawing samples", 0, count)
        labels = labels_like(self.subject.data, count, self.protocol.seed, size)
        clock, steps = time.perf_counter(), self.model.sampler.steps

        def watch(first: int, frame: Frame) -> None:
            self.progress("drawing samples", first + len(frame.z) * frame.step // steps, count)

        for chunk in draw(self.model, count, labels, self.protocol.seed, size, watch=watch):
            spent += time.perf_counter() - clock
            calls, seen = calls + float(chunk.calls.double().sum()), seen + len(chunk.x)
            for name, metric in self._looking().items():
                with (  # one that changes the samples spoils the others' measurements: it is raised
                    nullcontext() if chunk.first else untouched(metric, chunk.x),
                    self._on_its_own(name),
                ):
                    metric.update(chunk.x, chunk.labels)
            if not self._looking():
                break
            self.progress("drawing samples", seen, count)
            clock = time.perf_counter()
        return calls / seen, spent

    def _looking(self) -> dict[str, Metric]:
        """The metrics that use samples and have not failed."""
        return {n: m for n, m in self.metrics.items() if m.uses_samples and n not in self.failed}

    def measurements(self, of: Mapping[str, Any]) -> dict[str, Measurement]:
        """What each metric says, with what is the same for all beside it."""
        found: dict[str, Measurement] = {}
        for k, (name, metric) in enumerate(self.metrics.items()):
            if name in self.failed:
                continue
            self.progress(f"computing {name}", k, len(self.metrics))
            with self._on_its_own(name), evaluating(self.model):
                answer = check_measurements(metric, metric.compute())
                if (more := metric.details()) is not None:
                    self.details[name] = more
                if twice := answer.keys() & found.keys():
                    raise ElbowroomError(f"it says {min(twice)!r}, as another metric does")
                common = {**of, **self._common(metric)}
                for key, measurement in answer.items():
                    own = as_measurement(measurement)
                    found[key] = attrs.evolve(own, of={"metric": name, **own.of, **common})
        return found

    def _common(self, metric: Metric) -> dict[str, Any]:
        """The part of the protocol that every measurement of a metric has."""
        asked, sampler = self.protocol, self.model.sampler
        said: dict[str, Any] = {}
        if metric.uses_samples:
            assert sampler is not None, "samples were drawn"
            said["samples"] = asked.samples
            said["sampler"] = f"{type(sampler).__name__.lower()}, {sampler.steps} steps"
            if self.subject.data.spec.classes is not None:
                said["labels"] = "as often as in test"
        said["seed"] = asked.seed
        return said if asked.precision == "float32" else {**said, "precision": asked.precision}

    @contextmanager
    def _on_its_own(self, name: str) -> Iterator[None]:
        """What goes wrong in a metric is written down, the first time."""
        try:
            yield
        except Exception as error:
            why = str(error) if isinstance(error, ElbowroomError) else cause(error)
            self.failed.setdefault(name, why)


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
    labels = [split.take(rows).y for rows in which.split(batch_size)]
    known = [y.cpu() for y in labels if y is not None]
    if len(known) < len(labels):
        raise ElbowroomError("this data set says it has classes, and its test split no labels")
    return torch.cat(known)

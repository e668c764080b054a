"""Run the metrics of one evaluation, on one rank or on several.

Each rank draws consecutive chunks of samples. A metric that can be merged gets the chunks of its
rank, and the states of all copies are merged on the first rank. Any other metric gets every chunk
in order on the first rank, to which the other ranks send theirs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import attrs
import torch
from elbowroom import Dataset, Diffusion, ElbowroomError, Frame, IncompatibleError, Noise, Samples
from elbowroom.plugins.sampling.drawing import (
    chunk_starts,
    draw,
    evaluation_mode,
    from_tensors,
    to_tensors,
)
from elbowroom.plugins.training.ranks import Ranks
from elbowroom.registry import cause
from torch import Tensor

from .metric import EVALUATION_BATCH, Measurement, Metric, Subject, as_measurement, heading
from .metric_checks import check_measurements, samples_unchanged
from .protocol import EvaluationProtocol
from .shards import Shards

Progress = Callable[[str, int, int], None]
"""(task, amount done, total amount)"""


@attrs.define(eq=False)
class Measuring:
    """The metrics of one evaluation. A metric that fails does not affect the others."""

    subject: Subject
    model: Diffusion
    protocol: EvaluationProtocol
    ranks: Ranks
    progress: Progress
    shards: Shards | None = None  # stored chunks
    metrics: dict[str, Metric] = attrs.field(factory=dict)  # those that apply
    skipped: dict[str, str] = attrs.field(factory=dict)
    failed: dict[str, str] = attrs.field(factory=dict)
    details: dict[str, Any] = attrs.field(factory=dict)
    only: Collection[str] | None = None  # names of metrics to use; None: all

    def prepare(self) -> None:
        """Prepare the metrics, on the first rank first, as it fills the cache."""
        self.ranks.first(self._prepare)
        if not self.ranks.is_first:
            self._prepare()
        self._agree()

    def _agree(self) -> None:
        """Share skipped and failed metrics between ranks."""
        for skipped, failed in self.ranks.agree([self.skipped, self.failed]):
            self.skipped = {**skipped, **self.skipped}
            self.failed = {**failed, **self.failed}
        gone = self.skipped.keys() | self.failed.keys()
        self.metrics = {name: one for name, one in self.metrics.items() if name not in gone}

    def _prepare(self) -> None:
        """Prepare each metric. Errors of the user are raised before any sample is drawn.

        A default metric that does not apply is skipped; a named one must apply.
        """
        built = self.protocol.build()
        if self.only is not None:
            built = {name: metric for name, metric in built.items() if name in self.only}
        for k, (name, metric) in enumerate(built.items()):
            self.progress(f"preparing {name}", k, len(built))
            if not self.protocol.metrics and not metric.suits(self.subject.data.spec):
                continue
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
        """Draw samples and update the metrics; return network calls per sample and seconds."""
        count, size = self.protocol.samples, self.subject.batch_size
        if not self.of_samples():
            return None, 0.0
        if self.model.sampler is None:
            raise ElbowroomError("sampler: missing, so no samples can be drawn")
        self.progress("drawing samples", 0, count)
        labels = labels_as_in_data(self.subject.data, count, self.protocol.seed, size)
        calls, seen, seconds = self._show_own(labels)
        all_ranks = self.ranks.agree([calls, seen, seconds])
        per_sample = sum(one[0] for one in all_ranks) / sum(one[1] for one in all_ranks)
        return per_sample, max(one[2] for one in all_ranks)

    def _show_own(self, labels: Tensor | None) -> tuple[float, int, float]:
        """Draw this rank's chunks and update the metrics: network calls, samples, seconds."""
        assert self.model.sampler is not None
        count, seed, size = self.protocol.samples, self.protocol.seed, self.subject.batch_size
        firsts = chunk_starts(count, size, *self.subject.part)
        steps = self.model.sampler.count_steps(self.model)
        whole = self._unmergeable()
        to_send: list[Mapping[str, Tensor]] = []
        store = self.shards and self.shards.keyed(self.model, count, labels, seed, size)
        calls, seen, seconds = 0.0, 0, 0.0
        mine = min(len(firsts) * size, count - firsts.start)

        def watch(first: int, frame: Frame) -> None:
            done = first - firsts.start + len(frame.z) * min(frame.step, steps) // steps
            self.progress("drawing samples", done, mine)

        for name in self.of_samples():
            self._skip(name, firsts.start)
        clock = time.perf_counter()
        for chunk in draw(
            self.model,
            count,
            labels,
            seed,
            size,
            part=self.subject.part,
            store=store,
            watch=watch,
        ):
            seconds += time.perf_counter() - clock
            calls, seen = calls + float(chunk.calls.double().sum()), seen + len(chunk.x)
            for name in self.of_samples():
                if self.ranks.is_first or name not in whole:
                    self._show(name, chunk, checked=chunk.first > firsts.start)
            if whole and not self.ranks.is_first:
                to_send.append(to_tensors(chunk))
            if not self.of_samples() and not whole:
                break
            self.progress("drawing samples", seen, mine)
            clock = time.perf_counter()
        for chunk in self._sent(to_send) if whole else ():
            for name in [name for name in self.of_samples() if name in whole]:
                self._show(name, chunk, checked=True)
        return calls, seen, seconds

    def _unmergeable(self) -> list[str]:
        """Metrics that need all samples on the first rank, as they cannot be merged."""
        several = self.ranks.world > 1
        return [name for name, one in self.of_samples().items() if several and not one.merges]

    def _sent(self, mine: Sequence[Mapping[str, Tensor]]) -> Iterator[Samples]:
        """Yield the chunks of all other ranks in order, on the first. A collective call."""
        count, size, world = self.protocol.samples, self.subject.batch_size, self.ranks.world
        for rank in range(1, world):
            for k in range(len(chunk_starts(count, size, rank, world))):
                sent = self.ranks.gather_tensors(mine[k] if rank == self.ranks.rank else {})
                if self.ranks.is_first:
                    yield from_tensors(sent[rank])

    def _show(self, name: str, chunk: Samples, *, checked: bool) -> None:
        with (  # a change of the samples affects other metrics, so it is raised
            nullcontext() if checked else samples_unchanged(self.metrics[name], chunk.x),
            self._isolated(name),
        ):
            self.metrics[name].update(chunk.x, chunk.labels)

    def _skip(self, name: str, count: int) -> None:
        if count:
            with self._isolated(name):
                self.metrics[name].skip(count)

    def of_samples(self) -> dict[str, Metric]:
        """The metrics that use samples and have not failed."""
        return {n: m for n, m in self.metrics.items() if m.uses_samples and n not in self.failed}

    def merge(self) -> None:
        """Merge the metrics of all ranks into those of the first."""
        if self.ranks.world > 1:
            for name, metric in self.metrics.items():
                if metric.merges:
                    self._merge(name, metric)
            self._agree()

    def _merge(self, name: str, metric: Metric) -> None:
        """Merge one metric. A collective call; a rank where the metric failed sends nothing."""
        mine: Mapping[str, Tensor] | None = None
        with self._isolated(name), evaluation_mode(self.model):
            mine = None if name in self.failed else metric.state()
        states = self.ranks.gather_tensors(mine or {})
        with self._isolated(name):
            if states and all(states):
                metric.merge(states)

    def measurements(self, of: Mapping[str, Any]) -> dict[str, Measurement]:
        """Compute the measurements and add the common part of the protocol."""
        found: dict[str, Measurement] = {}
        for k, (name, metric) in enumerate(self.metrics.items()):
            if name in self.failed:
                continue
            self.progress(f"computing {name}", k, len(self.metrics))
            with self._isolated(name), evaluation_mode(self.model):
                answer = check_measurements(metric, metric.compute())
                if (more := metric.details()) is not None:
                    self.details[name] = more
                if twice := answer.keys() & found.keys():
                    raise ElbowroomError(
                        f"its measurement {min(twice)!r} has the name of another metric's"
                    )
                common = {**of, **self._common(metric)}
                for key, measurement in answer.items():
                    own = as_measurement(measurement)
                    whole = {"metric": name, **own.of, **common, **own.of}
                    title = metric.display[key].title if key in metric.display else key
                    found[key] = attrs.evolve(own, of=whole, heading=heading(title, whole))
        return found

    def _common(self, metric: Metric) -> dict[str, Any]:
        """The part of the protocol that is common to all measurements of a metric."""
        protocol, sampler = self.protocol, self.model.sampler
        common: dict[str, Any] = {}
        if metric.uses_samples:
            assert sampler is not None, "samples were drawn"
            common["samples"] = protocol.samples
            if protocol.sample_seeds > 1:
                common["sample_seeds"] = protocol.sample_seeds
            steps = sampler.count_steps(self.model)
            common["sampler"] = f"{type(sampler).__name__.lower()}, {steps} steps"
            if self.subject.data.spec.classes is not None:
                common["labels"] = "as often as in test"
        common["seed"] = protocol.seed
        return common | (
            {} if protocol.precision == "float32" else {"precision": protocol.precision}
        )

    @contextmanager
    def _isolated(self, name: str) -> Iterator[None]:
        """Record the first error of a metric instead of raising it."""
        try:
            yield
        except Exception as error:
            why = str(error) if isinstance(error, ElbowroomError) else cause(error)
            self.failed.setdefault(name, why)


def labels_as_in_data(
    data: Dataset, count: int, seed: int, batch_size: int = EVALUATION_BATCH
) -> Tensor | None:
    """[count] labels with the frequencies of the data, those of random test examples.

    Keyed by (seed, sample number), so a label does not depend on ``count``. None if the data has no
    labels.
    """
    if data.spec.classes is None:
        return None
    split = data.split("test") if len(data.split("test")) else data.split("train")
    which = Noise(seed, torch.arange(count), count).integers("label", len(split))
    labels = [split.take(rows).y for rows in which.split(batch_size)]
    known = [y.cpu() for y in labels if y is not None]
    if len(known) < len(labels):
        raise ElbowroomError("the data set has classes, but its test split has no labels")
    return torch.cat(known)

"""The metrics of one evaluation at work, on one rank or on several.

Ranks share the chunks of samples out, some in a row each. A metric that can be merged is shown the
chunks of its own rank, and what all copies saw is merged on the first; one that cannot is shown
every chunk in order there, to which the other ranks send theirs.
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
from .metric_checks import check_measurements, untouched
from .protocol import EvaluationProtocol
from .shards import Shards

Progress = Callable[[str, int, int], None]
"""(what is being done, how much is done, of how much)"""


@attrs.define(eq=False)
class Measuring:
    """The metrics of one evaluation: what goes wrong in one harms no other."""

    subject: Subject
    model: Diffusion
    protocol: EvaluationProtocol
    ranks: Ranks
    progress: Progress
    shards: Shards | None = None  # where chunks are kept while the evaluation is under way
    metrics: dict[str, Metric] = attrs.field(factory=dict)  # those that fit
    skipped: dict[str, str] = attrs.field(factory=dict)
    failed: dict[str, str] = attrs.field(factory=dict)
    details: dict[str, Any] = attrs.field(factory=dict)
    only: Collection[str] | None = None  # the metrics to use; None: all of the protocol

    def prepare(self) -> None:
        """Find the metrics that fit; the first rank before the others, as it fills the cache."""
        self.ranks.first(self._prepare)
        if not self.ranks.is_first:
            self._prepare()
        self._agree()

    def _agree(self) -> None:
        """What was left out or failed on one rank is so on each."""
        for skipped, failed in self.ranks.agree([self.skipped, self.failed]):
            self.skipped = {**skipped, **self.skipped}
            self.failed = {**failed, **self.failed}
        gone = self.skipped.keys() | self.failed.keys()
        self.metrics = {name: one for name, one in self.metrics.items() if name not in gone}

    def _prepare(self) -> None:
        """One that was asked for by name must fit.

        What the user can mend is said before any sample is drawn: these are raised.
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
        """Draw samples for the metrics that use them: network calls a sample, and seconds."""
        count, size = self.protocol.samples, self.subject.batch_size
        if not self.of_samples():
            return None, 0.0
        if self.model.sampler is None:
            raise ElbowroomError("sampler: the config names none, so samples cannot be drawn")
        self.progress("drawing samples", 0, count)
        labels = labels_as_in_data(self.subject.data, count, self.protocol.seed, size)
        calls, seen, seconds = self._show_own(labels)
        told = self.ranks.agree([calls, seen, seconds])
        return sum(t[0] for t in told) / sum(t[1] for t in told), max(t[2] for t in told)

    def _show_own(self, labels: Tensor | None) -> tuple[float, int, float]:
        """Draw this rank's chunks and update the metrics: network calls, samples, seconds."""
        assert self.model.sampler is not None
        count, seed, size = self.protocol.samples, self.protocol.seed, self.subject.batch_size
        firsts = chunk_starts(count, size, *self.subject.part)
        steps = self.model.sampler.count_steps(self.model)
        whole = self._seen_on_the_first()
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

    def _seen_on_the_first(self) -> list[str]:
        """The metrics that must see all samples, as copies of them cannot be merged."""
        several = self.ranks.world > 1
        return [name for name, one in self.of_samples().items() if several and not one.merges]

    def _sent(self, mine: Sequence[Mapping[str, Tensor]]) -> Iterator[Samples]:
        """The chunks of all other ranks in order, on the first; every rank must ask for all."""
        count, size, world = self.protocol.samples, self.subject.batch_size, self.ranks.world
        for rank in range(1, world):
            for k in range(len(chunk_starts(count, size, rank, world))):
                told = self.ranks.gather_tensors(mine[k] if rank == self.ranks.rank else {})
                if self.ranks.is_first:
                    yield from_tensors(told[rank])

    def _show(self, name: str, chunk: Samples, *, checked: bool) -> None:
        with (  # one that changes the samples spoils the others' measurements: it is raised
            nullcontext() if checked else untouched(self.metrics[name], chunk.x),
            self._on_its_own(name),
        ):
            self.metrics[name].update(chunk.x, chunk.labels)

    def _skip(self, name: str, count: int) -> None:
        if count:
            with self._on_its_own(name):
                self.metrics[name].skip(count)

    def of_samples(self) -> dict[str, Metric]:
        """The metrics that use samples and have not failed."""
        return {n: m for n, m in self.metrics.items() if m.uses_samples and n not in self.failed}

    def merge(self) -> None:
        """What the metrics of all ranks saw, in those of the first."""
        if self.ranks.world > 1:
            for name, metric in self.metrics.items():
                if metric.merges:
                    self._merge(name, metric)
            self._agree()

    def _merge(self, name: str, metric: Metric) -> None:
        """Every rank must call; one in which the metric failed has nothing to give."""
        mine: Mapping[str, Tensor] | None = None
        with self._on_its_own(name), evaluation_mode(self.model):
            mine = None if name in self.failed else metric.state()
        states = self.ranks.gather_tensors(mine or {})
        with self._on_its_own(name):
            if states and all(states):
                metric.merge(states)

    def measurements(self, of: Mapping[str, Any]) -> dict[str, Measurement]:
        """What each metric says, with what is the same for all beside it."""
        found: dict[str, Measurement] = {}
        for k, (name, metric) in enumerate(self.metrics.items()):
            if name in self.failed:
                continue
            self.progress(f"computing {name}", k, len(self.metrics))
            with self._on_its_own(name), evaluation_mode(self.model):
                answer = check_measurements(metric, metric.compute())
                if (more := metric.details()) is not None:
                    self.details[name] = more
                if twice := answer.keys() & found.keys():
                    raise ElbowroomError(f"it says {min(twice)!r}, as another metric does")
                common = {**of, **self._common(metric)}
                for key, measurement in answer.items():
                    own = as_measurement(measurement)
                    whole = {"metric": name, **own.of, **common, **own.of}
                    title = metric.display[key].title if key in metric.display else key
                    found[key] = attrs.evolve(own, of=whole, heading=heading(title, whole))
        return found

    def _common(self, metric: Metric) -> dict[str, Any]:
        """The part of the protocol that every measurement of a metric has."""
        asked, sampler = self.protocol, self.model.sampler
        said: dict[str, Any] = {}
        if metric.uses_samples:
            assert sampler is not None, "samples were drawn"
            said["samples"] = asked.samples
            if asked.sample_seeds > 1:
                said["sample_seeds"] = asked.sample_seeds
            steps = sampler.count_steps(self.model)
            said["sampler"] = f"{type(sampler).__name__.lower()}, {steps} steps"
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


def labels_as_in_data(
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

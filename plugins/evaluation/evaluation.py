"""Measuring a model: measurements, each with its protocol beside it.

Samples are drawn in chunks, shown to every metric and forgotten: memory does not depend on how many
there are. Where the data have labels, the samples' are as frequent as the test split's. A metric
that fails says so in its place and costs the others nothing.

Several ranks share the chunks out; what their metrics saw is merged on the first, which alone knows
the measurements. Chunks are those of one process, so all samples are too.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs
import torch
from elbowroom import Dataset, Diffusion
from elbowroom.plugins.training.precision import model_on
from elbowroom.plugins.training.ranks import Ranks

from .measuring import Measuring, Progress
from .metric import EVALUATION_BATCH, Measurement, Subject
from .protocol import EvaluationProtocol
from .shards import Shards


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


def evaluate(
    model: Diffusion,
    data: Dataset,
    protocol: EvaluationProtocol | None = None,
    *,
    batch_size: int = EVALUATION_BATCH,
    device: torch.device | str | None = None,
    of: Mapping[str, Any] | None = None,
    ranks: Ranks | None = None,
    shards: Shards | None = None,
    progress: Progress = lambda *_: None,
) -> Evaluation:
    """The measurements of a model against a data set.

    On ``device``, or the accelerator the model is on, or what there is. ``of`` is what every
    measurement shall say of the model; ``shards`` keep samples, for one that is killed to go on.
    With ``ranks`` each of them must call, and the first is told.
    """
    protocol = protocol or EvaluationProtocol()
    began = time.perf_counter()
    with model_on(model, device, protocol.precision) as there:
        ranks = ranks or Ranks(there)
        part = (ranks.rank, ranks.world)
        subject = Subject(data, model, protocol.seed, batch_size, there, part)
        at_work = [Measuring(subject, model, protocol, ranks, progress, shards)]
        found = [_measured(at_work[0], of or {})]
        for seed in protocol.seeds[1:]:
            if not (again := at_work[0].of_samples()):
                break
            one = Measuring(
                subject.with_seed(seed),
                model,
                attrs.evolve(protocol, seed=seed),
                ranks,
                progress,
                None if shards is None else shards.of_seed(seed),
                only=again,
            )
            at_work.append(one)
            found.append(_measured(one, of or {}))
    sampling = sum(one.seconds for one in found)
    calls = [one.calls for one in found if one.calls is not None]
    failed = {name: why for one in reversed(at_work) for name, why in one.failed.items()}
    return Evaluation(
        _combined([one.measurements for one in found], failed),
        at_work[0].skipped,
        failed,
        statistics.fmean(calls) if calls else None,
        {"sampling": sampling, "rest": time.perf_counter() - began - sampling},
        at_work[0].details,
    )


@attrs.frozen
class _Pass:
    """What the metrics of one sample seed found."""

    measurements: Mapping[str, Measurement]
    calls: float | None
    seconds: float  # of sampling


def _measured(at_work: Measuring, of: Mapping[str, Any]) -> _Pass:
    at_work.prepare()
    calls, seconds = at_work.show_samples()
    at_work.merge()
    return _Pass(at_work.measurements(of) if at_work.ranks.is_first else {}, calls, seconds)


def _combined(
    passes: Sequence[Mapping[str, Measurement]], failed: Collection[str]
) -> dict[str, Measurement]:
    """The measurements of all sample seeds; those of a metric that failed with one are left out."""
    found = {}
    for name, first in passes[0].items():
        if first.of["metric"] not in failed:
            found[name] = over_sample_seeds([one[name] for one in passes if name in one])
    return found


def over_sample_seeds(found: Sequence[Measurement]) -> Measurement:
    """The mean over T sample seeds, and its standard error: std / sqrt(T)."""
    first, count = found[0], len(found)
    if count == 1:
        return first
    values = torch.tensor([one.value for one in found], dtype=torch.float64)
    return attrs.evolve(
        first,
        value=float(values.mean()),
        standard_error=float(values.std()) / math.sqrt(count),
        replicates=values.tolist(),
    )

"""Evaluate a model: measurements, each with its protocol.

Samples are drawn in chunks that every metric gets and that are then discarded, so memory does not
depend on their number. If the data has labels, those of the samples are as frequent as in the test
split. A metric that fails is reported and does not affect the others.

Several ranks share the chunks; the states of their metrics are merged on the first rank, which
alone has the measurements. The samples are those of one process.
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
    """The result of an evaluation."""

    measurements: Mapping[str, Measurement]
    skipped: Mapping[str, str]  # metric -> why it does not apply
    failed: Mapping[str, str]  # metric -> error
    calls_mean: float | None  # network calls per sample; None without samples
    seconds: Mapping[str, float]  # of sampling and of the rest
    details: Mapping[str, Any] = attrs.Factory(dict)  # metric -> further results

    def record(self) -> dict[str, Any]:
        """As JSON data."""
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
    """Evaluate a model on a data set.

    ``of`` is added to the protocol of every measurement. ``shards`` store samples so that a killed
    evaluation can be resumed. With ``ranks`` this is a collective call; the first rank has the
    measurements.
    """
    protocol = protocol or EvaluationProtocol()
    began = time.perf_counter()
    with model_on(model, device, protocol.precision) as there:
        ranks = ranks or Ranks(there)
        part = (ranks.rank, ranks.world)
        subject = Subject(data, model, protocol.seed, batch_size, there, part)
        measuring = [Measuring(subject, model, protocol, ranks, progress, shards)]
        found = [_measured(measuring[0], of or {})]
        for seed in protocol.seeds[1:]:
            if not (again := measuring[0].of_samples()):
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
            measuring.append(one)
            found.append(_measured(one, of or {}))
    sampling = sum(one.seconds for one in found)
    calls = [one.calls for one in found if one.calls is not None]
    failed = {name: why for one in reversed(measuring) for name, why in one.failed.items()}
    return Evaluation(
        _combined([one.measurements for one in found], failed),
        measuring[0].skipped,
        failed,
        statistics.fmean(calls) if calls else None,
        {"sampling": sampling, "rest": time.perf_counter() - began - sampling},
        measuring[0].details,
    )


@attrs.frozen
class _Pass:
    """Results of one sample seed."""

    measurements: Mapping[str, Measurement]
    calls: float | None
    seconds: float  # of sampling


def _measured(measuring: Measuring, of: Mapping[str, Any]) -> _Pass:
    measuring.prepare()
    calls, seconds = measuring.show_samples()
    measuring.merge()
    return _Pass(measuring.measurements(of) if measuring.ranks.is_first else {}, calls, seconds)


def _combined(
    passes: Sequence[Mapping[str, Measurement]], failed: Collection[str]
) -> dict[str, Measurement]:
    """Average the measurements over sample seeds, without metrics that failed for one."""
    found = {}
    for name, first in passes[0].items():
        if first.of["metric"] not in failed:
            found[name] = over_sample_seeds([one[name] for one in passes if name in one])
    return found


def over_sample_seeds(found: Sequence[Measurement]) -> Measurement:
    """Mean over T sample seeds; standard error std / sqrt(T) with T - 1 degrees of freedom."""
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

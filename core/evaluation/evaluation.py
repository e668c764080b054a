"""Measuring a model: measurements, each with its protocol beside it.

Samples are drawn in chunks, shown to every metric and forgotten: memory does not depend on how many
there are. Where the data have labels, the samples' are as frequent as the test split's. A metric
that fails says so in its place and costs the others nothing.

Several ranks share the chunks out; what their metrics saw is merged on the first, which alone knows
the measurements. Chunks are those of one process, so all samples are too.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import attrs
import torch

from ..config.sizes import check_labels
from ..contracts.dataset import Dataset
from ..contracts.metric import EVALUATION_BATCH, Measurement, Subject
from ..objective.diffusion import Diffusion
from ..runs.precision import working
from ..runs.ranks import Ranks
from .measuring import Measuring, Progress
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
    check_labels(protocol.samples)
    began = time.perf_counter()
    with working(model, device, protocol.precision) as there:
        ranks = ranks or Ranks(there)
        part = (ranks.rank, ranks.world)
        subject = Subject(data, model, protocol.seed, batch_size, there, part)
        at_work = Measuring(subject, model, protocol, ranks, progress, shards)
        at_work.prepare()
        calls, sampling = at_work.show_samples()
        at_work.merge()
        measurements = at_work.measurements(of or {}) if ranks.is_first else {}
    seconds = {"sampling": sampling, "rest": time.perf_counter() - began - sampling}
    return Evaluation(
        measurements, at_work.skipped, at_work.failed, calls, seconds, at_work.details
    )

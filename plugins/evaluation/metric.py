"""Metrics: measurements of a model and its samples, each with its protocol.

A metric is prepared with a :class:`Subject` (data set and model), updated with batches of samples,
and then computes its measurements. Its memory must not grow with the number of samples: it keeps
sums, not samples. A metric of the model alone has ``uses_samples = False``.

Several ranks share the samples. Each rank updates a copy of the metric with its own batches and
calls ``skip`` for the samples before them; in the end the ``state`` of all copies is merged into
the first, which computes. With s(A) the state after the samples A, the law is

    merge(s(A), s(B)) computes the same as s(A and B),

up to rounding. A metric without ``state`` gets all samples in order on the first rank. A metric of
the model alone does ``subject.part`` of its work in ``state``.

FID depends on the number of samples, the feature network and the reference split, so
``Measurement.of`` records such choices; the evaluation adds those common to all metrics (model,
sampler, number of samples, seed).

``display`` defines how tables show a measurement: its title, whether it is a detail, and whether
models are ranked by it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import attrs

if TYPE_CHECKING:
    import torch
    from elbowroom import Dataset, DataSpec, Diffusion
    from torch import Tensor

_T = TypeVar("_T")

EVALUATION_BATCH = 250
"""Default number of examples and samples in a batch; cached features depend on it."""


@attrs.frozen
class Measurement:
    """A value with its standard error and its protocol.

    The standard error is that of the evaluation of one trained model: over other samples (metrics
    of samples, with a fixed reference) or other examples and noise (bits/dim). ``replicates`` are
    equally weighted parts of the evaluation whose mean is the value, one for each sample seed or
    group of examples, in the same order for all models. A comparison pairs models by them.
    """

    value: float
    standard_error: float | None = None
    better: Literal["lower", "higher"] | None = None  # None: neither
    floor: float | None = None  # value for real data: the test split instead of samples
    of: Mapping[str, Any] = attrs.Factory(dict)  # protocol: feature network, reference split, ...
    uniform_baseline: float | None = None  # value of a model that predicts the uniform distribution
    heading: str = ""  # title, features and number of samples; set by the evaluation
    replicates: Sequence[float] = ()

    def record(self) -> dict[str, Any]:
        """As JSON data."""
        vacuous = is_vacuous(self.value, self.better, self.uniform_baseline)
        plain = attrs.asdict(self, recurse=False)
        lists = {"of": dict(self.of), "replicates": list(self.replicates)}
        return {**plain, **lists, "vacuous": vacuous}


@attrs.frozen
class Display:
    """How tables show a measurement."""

    title: str
    shown: Literal["always", "report", "detail"] = "always"
    """In every table, in reports but not in terminals, or only in the full list."""
    ranked: bool = True  # whether the best of several models is marked

    def record(self) -> dict[str, Any]:
        """As JSON data."""
        return attrs.asdict(self)


@attrs.define(eq=False)
class Subject:
    """The model and data of an evaluation, and a cache that metrics share."""

    data: Dataset
    model: Diffusion | None = None  # in evaluation mode; None: samples from elsewhere
    seed: int = 0
    batch_size: int = EVALUATION_BATCH  # examples per batch
    device: torch.device | str = "cpu"
    part: tuple[int, int] = (0, 1)  # rank, number of ranks
    _shared: dict[Hashable, Any] = attrs.field(factory=dict, init=False)

    def with_seed(self, seed: int) -> Subject:
        """Return the subject with another seed and the same cache."""
        other = copy(self)
        other.seed = seed
        return other

    def once(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return the result of ``make``, computed once per key for all metrics."""
        if key not in self._shared:
            self._shared[key] = make()
        found: _T = self._shared[key]
        return found


class Metric(ABC):
    """Computes measurements from a subject and batches of integer samples."""

    uses_samples: ClassVar[bool] = True
    usual: ClassVar[int | None] = None
    """Position among the default metrics; None: used only if named. Not inherited."""
    display: ClassVar[Mapping[str, Display]] = {}
    """Measurement name -> how it is shown. Default: always, under its name."""

    def suits(self, data: DataSpec) -> bool:
        """Whether an evaluation that names no metrics uses this one for such data."""
        return True

    def prepare(self, subject: Subject) -> None:  # noqa: B027  # most need nothing
        """Prepare for a subject; raise an ElbowroomError if it cannot be evaluated."""

    def update(self, samples: Tensor, labels: Tensor | None) -> None:  # noqa: B027  # may do nothing
        """Add a batch of integers [B, *shape] and their labels [B]."""

    def skip(self, count: int) -> None:  # noqa: B027  # most do not number samples
        """Skip ``count`` samples, which another rank's copy gets."""

    def state(self) -> Mapping[str, Tensor] | None:
        """Return the state as tensors on the CPU; None: it cannot be merged."""
        return None

    def merge(self, states: Sequence[Mapping[str, Tensor]]) -> None:  # noqa: B027  # see state
        """Replace the state by the merged states of all ranks, in order. See ``state``."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Raise for a class with ``state`` but without ``merge``."""
        super().__init_subclass__(**options)
        if cls.state is not Metric.state and cls.merge is Metric.merge:
            raise TypeError(
                f"{cls.__name__} defines state but not merge. Define merge(states), or remove "
                "state: one rank then gets all samples."
            )

    @property
    def merges(self) -> bool:
        """Whether states can be merged."""
        return type(self).state is not Metric.state

    @abstractmethod
    def compute(self) -> Mapping[str, Measurement | float]:
        """Return measurements by name; a number is a Measurement without further fields."""

    def details(self) -> Any:
        """Return JSON data to store with the measurements, or None."""
        return None


def is_vacuous(value: float | None, better: str | None, uniform_baseline: float | None) -> bool:
    """Return whether a measurement is worse than the uniform baseline."""
    if value is None or better is None or uniform_baseline is None:
        return False
    return value > uniform_baseline if better == "lower" else value < uniform_baseline


def heading(title: str, of: Mapping[str, Any]) -> str:
    """Heading of a table column: ``FID train, digits classifier 98 %, 1000 samples``."""
    features, accuracy, samples = map(of.get, ("features", "features_test_accuracy", "samples"))
    if accuracy is not None:  # a classifier trained on the data
        features = f"{of.get('data', '')} {features} {100 * accuracy:.0f} %".strip()
    if samples is not None:
        short = samples < 10_000 or samples % 1000
        times = f"{of['sample_seeds']} × " if "sample_seeds" in of else ""
        samples = f"{times}{samples if short else f'{samples // 1000}k'} samples"
    words = " vs ".join(filter(None, (samples or of.get("split"), of.get("reference"))))
    return ", ".join(filter(None, (title, features, words)))


def as_measurement(value: Measurement | float) -> Measurement:
    """Convert a number to a Measurement."""
    return value if isinstance(value, Measurement) else Measurement(float(value))

"""Metrics: measurements of a model and its samples, each with a statement of its protocol.

A metric is shown the :class:`Subject` once (the data set to compare with, the model), then samples
batch by batch, and then says its measurements. Its memory must not grow with the number of samples:
it keeps sums, not samples. A metric that looks at the model alone says ``uses_samples = False``.

Samples may be shared out among ranks. Each rank then shows a copy of the metric its own batches and
calls ``skip`` for those of the others; at the end the ``state`` of all is merged into the first,
which computes. With s(A) the state after the samples A, the law is

    merge(s(A), s(B)) says what s(A and B) says,

up to the rounding of sums. A metric that leaves ``state`` out is shown all samples in their order
on the first rank. One that looks at the model alone does ``subject.part`` of its work in ``state``.

A measurement without its protocol is a number without a unit: FID moves with the number of samples,
the feature network and the reference split. ``Measurement.of`` says these; what they have in common
(model, sampler, number of samples, seed) the evaluation adds to each.

How tables show a measurement is the metric's to say too: ``display`` has a title for people,
whether it is a detail, whether models are ranked by it.
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
"""Examples and samples looked at at once, unless told; what metrics keep is kept by this too."""


@attrs.frozen
class Measurement:
    """A value with its standard error and its protocol.

    The standard error is that of the evaluation of one trained model: by how much other samples
    (metrics of samples; the reference stays) or other examples and noise (bits/dim) change the
    value. ``replicates`` are equally weighted parts of the evaluation whose mean is the value, in
    an order that is the same for all models: one for each sample seed, or for each group of
    examples. A comparison pairs models by them.
    """

    value: float
    standard_error: float | None = None
    better: Literal["lower", "higher"] | None = None  # None: neither is
    floor: float | None = None  # what real data gets: the test split in the samples' place
    of: Mapping[str, Any] = attrs.Factory(dict)  # protocol: feature network, reference split, ...
    uniform_baseline: float | None = None  # value of a model that predicts the uniform distribution
    heading: str = ""  # its title, features and number of samples; the evaluation says it
    replicates: Sequence[float] = ()

    def record(self) -> dict[str, Any]:
        """The same as JSON data."""
        vacuous = is_vacuous(self.value, self.better, self.uniform_baseline)
        plain = attrs.asdict(self, recurse=False)
        lists = {"of": dict(self.of), "replicates": list(self.replicates)}
        return {**plain, **lists, "vacuous": vacuous}


@attrs.frozen
class Display:
    """How tables show a measurement."""

    title: str  # for people
    shown: Literal["always", "report", "detail"] = "always"
    """In every table, not in a terminal's (it is narrow), or only in the full list."""
    ranked: bool = True  # is the best of several models marked?

    def record(self) -> dict[str, Any]:
        """The same as JSON data."""
        return attrs.asdict(self)


@attrs.define(eq=False)
class Subject:
    """What is evaluated, and what metrics may share while they look at it."""

    data: Dataset
    model: Diffusion | None = None  # in evaluation mode; None: samples from elsewhere
    seed: int = 0
    batch_size: int = EVALUATION_BATCH  # how much to look at at once
    device: torch.device | str = "cpu"
    part: tuple[int, int] = (0, 1)  # rank, ranks: the whole is shared out among so many
    _shared: dict[Hashable, Any] = attrs.field(factory=dict, init=False)

    def with_seed(self, seed: int) -> Subject:
        """The same subject with another seed; what metrics share stays shared."""
        other = copy(self)
        other.seed = seed
        return other

    def once(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """What ``make`` makes, made once for all metrics that ask with this key."""
        if key not in self._shared:
            self._shared[key] = make()
        found: _T = self._shared[key]
        return found


class Metric(ABC):
    """Sees a subject, then integer samples in batches, then says its measurements."""

    uses_samples: ClassVar[bool] = True
    usual: ClassVar[int | None] = None
    """Its place among the metrics of an evaluation that names none; None: it is asked for by name.
    Of this class alone: what derives from it is not usual because of that."""
    display: ClassVar[Mapping[str, Display]] = {}
    """Measurement name -> how it is shown; others always, under their own name."""

    def suits(self, data: DataSpec) -> bool:
        """Whether an evaluation that names no metrics uses this one for such data."""
        return True

    def prepare(self, subject: Subject) -> None:  # noqa: B027  # most need nothing
        """Look at what will be evaluated; raise an ElbowroomError if it cannot be."""

    def update(self, samples: Tensor, labels: Tensor | None) -> None:  # noqa: B027  # may do nothing
        """One batch of integers [B, *shape] and the labels [B] they were drawn for."""

    def skip(self, count: int) -> None:  # noqa: B027  # most do not number samples
        """The next ``count`` samples are shown to the copy of another rank."""

    def state(self) -> Mapping[str, Tensor] | None:
        """What was seen, as tensors on the CPU; None: it cannot be merged with others'."""
        return None

    def merge(self, states: Sequence[Mapping[str, Tensor]]) -> None:  # noqa: B027  # see state
        """Take the states of all ranks, in their order (one's own too), as what was seen.

        One that has no state is never asked to.
        """

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse a class of which several ranks would say what one of them saw."""
        super().__init_subclass__(**options)
        if cls.state is not Metric.state and cls.merge is Metric.merge:
            raise TypeError(
                f"{cls.__name__} has a state and no merge: define merge(states), which takes the "
                "states of all ranks as what was seen, or no state, and one rank sees all samples"
            )

    @property
    def merges(self) -> bool:
        """Can the states of copies be merged?"""
        return type(self).state is not Metric.state

    @abstractmethod
    def compute(self) -> Mapping[str, Measurement | float]:
        """Measurement name -> measurement; a plain number is one of which nothing more is known."""

    def details(self) -> Any:
        """JSON data to be kept beside the measurements, where they are not all there is to say."""
        return None


def is_vacuous(value: float | None, better: str | None, uniform_baseline: float | None) -> bool:
    """Is a measurement worse than the uniform baseline?"""
    if value is None or better is None or uniform_baseline is None:
        return False
    return value > uniform_baseline if better == "lower" else value < uniform_baseline


def heading(title: str, of: Mapping[str, Any]) -> str:
    """What a table calls a measurement: ``FID train, digits classifier 98 %, 1000 samples``."""
    features, accuracy, samples = map(of.get, ("features", "features_test_accuracy", "samples"))
    if accuracy is not None:  # it knows one data set, and how well
        features = f"{of.get('data', '')} {features} {100 * accuracy:.0f} %".strip()
    if samples is not None:
        short = samples < 10_000 or samples % 1000
        times = f"{of['sample_seeds']} × " if "sample_seeds" in of else ""
        samples = f"{times}{samples if short else f'{samples // 1000}k'} samples"
    words = " vs ".join(filter(None, (samples or of.get("split"), of.get("reference"))))
    return ", ".join(filter(None, (title, features, words)))


def as_measurement(value: Measurement | float) -> Measurement:
    """A measurement, whatever form it was said in."""
    return value if isinstance(value, Measurement) else Measurement(float(value))

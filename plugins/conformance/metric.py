"""Laws of a metric."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable

import torch
from elbowroom import Dataset
from elbowroom.plugins.evaluation.metric import Measurement, Metric, Subject, as_measurement
from elbowroom.randomness import preserve_generators, seed_generators

from .law import ensure, run


def check_metric(
    metric: Metric, samples: torch.Tensor | None = None, data: Dataset | None = None
) -> None:
    """Check the laws of a metric of samples.

    ``metric`` is without samples, and prepared unless ``data`` is given; ``samples`` are integers
    (default: random images of 8 x 8 pixels and 17 levels).
    """
    if samples is None:
        samples = torch.randint(17, (30, 8, 8, 1), generator=torch.Generator().manual_seed(0))
    if not isinstance(metric, Metric):
        raise TypeError(f"check_metric takes a metric, like MyMetric(), not {metric!r}")

    def fresh() -> Metric:
        copied = _copy(metric)
        if data is not None:
            copied.prepare(Subject(data))
        return copied

    laws = [_unchanged, _measurements, _protocol, _batching, _order, _repeat, _merging]
    run(metric, laws, fresh, samples)


def _copy(metric: Metric) -> Metric:
    """A deep copy, without slots that are not set yet."""
    fresh = object.__new__(type(metric))
    slots = [slot for base in type(metric).__mro__ for slot in vars(base).get("__slots__", ())]
    for name in {*slots, *getattr(metric, "__dict__", ())} - {"__dict__", "__weakref__"}:
        if hasattr(metric, name):
            object.__setattr__(fresh, name, copy.deepcopy(getattr(metric, name)))
    return fresh


def _measurements(build: Callable[[], Metric], samples: torch.Tensor) -> None:
    """It returns finite measurements."""
    metric = build()
    metric.update(samples, None)
    measurements = _measured(metric)
    ensure(len(measurements) > 0, "it returns none.")
    bad = [name for name, one in measurements.items() if not math.isfinite(one.value)]
    ensure(not bad, f"{bad} are not finite.")


def _protocol(build: Callable[[], Metric], samples: torch.Tensor) -> None:
    """Its measurements can be written as JSON."""
    metric = build()
    metric.update(samples, None)
    for name, measurement in _measured(metric).items():
        try:
            json.dumps(measurement.record())
        except (TypeError, ValueError) as error:
            raise AssertionError(f"{name} cannot: {error}.") from None


def _batching(build: Callable[[], Metric], samples: torch.Tensor) -> None:
    """The measurements do not depend on how the samples are split into batches."""
    whole, parts = build(), build()
    whole.update(samples, None)
    for part in samples.split(max(1, len(samples) // 3)):
        parts.update(part, None)
    _agree(whole, parts, "in three batches")


def _order(build: Callable[[], Metric], samples: torch.Tensor) -> None:
    """The measurements do not depend on the order of the samples (beyond their standard errors)."""
    forward, backward = build(), build()
    forward.update(samples, None)
    backward.update(samples.flip(0), None)
    _agree(forward, backward, "backwards", errors=1.0)


def _repeat(build: Callable[[], Metric], samples: torch.Tensor) -> None:
    """Computing twice gives the same, whatever the global random generator does."""
    metric = build()
    metric.update(samples, None)
    first = _measured(metric)
    with preserve_generators():
        seed_generators(1)
        second = _measured(metric)
    for name, measurement in first.items():
        ensure(measurement.value == second[name].value, f"{name} changed in a second call.")


def _merging(build: Callable[[], Metric], samples: torch.Tensor) -> None:
    """Copies updated on several ranks and merged measure the same as one, to rounding."""
    whole, copies, seen = build(), [build() for _ in range(3)], 0
    if not whole.merges:
        return
    whole.update(samples, None)
    cut = len(samples) // 3 + 1
    for copied, part in zip(copies, (samples[:cut], samples[cut:], samples[:0]), strict=True):
        copied.skip(seen)
        if len(part):  # one has no samples
            copied.update(part, None)
        seen += len(part)
    states = [one.state() or {} for one in copies]
    for state in states:
        ensure(bool(state), "one of its states is empty.")
        bad = [name for name, value in state.items() if not isinstance(value, torch.Tensor)]
        ensure(not bad, f"{bad} of its state are not tensors.")
    copies[0].merge(states)
    _agree(whole, copies[0], "merged from parts", relative=1e-9, absolute=1e-12)


def _unchanged(build: Callable[[], Metric], samples: torch.Tensor) -> None:
    """The samples are not changed."""
    copied = samples.clone()
    build().update(copied, None)
    ensure(torch.equal(copied, samples), "it wrote into them.")


def _measured(metric: Metric) -> dict[str, Measurement]:
    return {name: as_measurement(value) for name, value in metric.compute().items()}


def _agree(
    one: Metric,
    other: Metric,
    how: str,
    errors: float = 0.0,
    *,
    relative: float = 1e-4,
    absolute: float = 1e-6,
) -> None:
    first, second = _measured(one), _measured(other)
    for name, measurement in first.items():
        allowed = absolute + errors * (measurement.standard_error or 0.0)
        value, otherwise = second[name].value, measurement.value
        near = math.isclose(value, otherwise, rel_tol=relative, abs_tol=allowed)
        ensure(near, f"{name} is {value:.6g} {how}, {otherwise:.6g} otherwise.")

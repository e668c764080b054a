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


def check_metric(metric: Metric, samples: torch.Tensor, data: Dataset | None = None) -> None:
    """Every law of a metric of samples.

    ``metric`` has seen no samples yet; ``samples`` are integers it can eat, and ``data`` is what
    they are compared with (``metric`` is prepared already where none is given).
    """
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
    """As it is; attributes that it will only have later (attrs' slots) are left out."""
    fresh = object.__new__(type(metric))
    slots = [slot for base in type(metric).__mro__ for slot in vars(base).get("__slots__", ())]
    for name in {*slots, *getattr(metric, "__dict__", ())} - {"__dict__", "__weakref__"}:
        if hasattr(metric, name):
            object.__setattr__(fresh, name, copy.deepcopy(getattr(metric, name)))
    return fresh


def _measurements(build: Callable[[], Metric], samples: torch.Tensor) -> None:
    """It says finite measurements."""
    metric = build()
    metric.update(samples, None)
    measurements = _said(metric)
    ensure(len(measurements) > 0, "it says nothing.")
    bad = [
        name for name, measurement in measurements.items() if not math.isfinite(measurement.value)
    ]
    ensure(not bad, f"{bad} are not finite.")


def _protocol(build: Callable[[], Metric], samples: torch.Tensor) -> None:
    """What its measurements are of can be written as JSON."""
    metric = build()
    metric.update(samples, None)
    for name, measurement in _said(metric).items():
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
    """Asking twice gives the same answer, whatever the global random generator does."""
    metric = build()
    metric.update(samples, None)
    first = _said(metric)
    with preserve_generators():
        seed_generators(1)
        second = _said(metric)
    for name, measurement in first.items():
        ensure(
            measurement.value == second[name].value, f"{name} changed when it was asked for again."
        )


def _merging(build: Callable[[], Metric], samples: torch.Tensor) -> None:
    """Parts seen by copies on several ranks and merged say what the whole says, to rounding."""
    whole, copies, seen = build(), [build() for _ in range(3)], 0
    if not whole.merges:
        return
    whole.update(samples, None)
    cut = len(samples) // 3 + 1
    for copied, part in zip(copies, (samples[:cut], samples[cut:], samples[:0]), strict=True):
        copied.skip(seen)
        if len(part):  # one of them is shown nothing
            copied.update(part, None)
        seen += len(part)
    states = [one.state() or {} for one in copies]
    for state in states:
        ensure(bool(state), "one of its states is empty.")
        bad = [name for name, value in state.items() if not isinstance(value, torch.Tensor)]
        ensure(not bad, f"{bad} of its state are no tensors.")
    copies[0].merge(states)
    _agree(whole, copies[0], "merged from parts", relative=1e-9, absolute=1e-12)


def _unchanged(build: Callable[[], Metric], samples: torch.Tensor) -> None:
    """The samples are left as they were: other metrics see them too."""
    shown = samples.clone()
    build().update(shown, None)
    ensure(torch.equal(shown, samples), "it wrote into them.")


def _said(metric: Metric) -> dict[str, Measurement]:
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
    first, second = _said(one), _said(other)
    for name, measurement in first.items():
        allowed = absolute + errors * (measurement.standard_error or 0.0)
        value, otherwise = second[name].value, measurement.value
        near = math.isclose(value, otherwise, rel_tol=relative, abs_tol=allowed)
        ensure(near, f"{name} is {value:.6g} {how}, {otherwise:.6g} otherwise.")

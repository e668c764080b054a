"""Checks of the results of a metric."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from elbowroom.plugins.conformance.component_checks import ComponentCheck, describe_type
from torch import Tensor

from .metric import Measurement


def check_measurements(metric: object, results: Any) -> Mapping[str, Measurement | float]:
    """Return the results if they map names to numbers or Measurements; raise otherwise."""
    check = ComponentCheck("metric", metric)
    check.ensure(
        isinstance(results, Mapping),
        f"computed {describe_type(results)}, not a mapping of names to measurements",
    )
    for name, value in results.items():
        check.ensure(isinstance(name, str), f"named a measurement {name!r}, which is not a string")
        measurement = value if isinstance(value, Measurement) else Measurement(value)
        parts = {"": measurement.value, "'s standard error": measurement.standard_error}
        for of, part in {**parts, "'s floor": measurement.floor}.items():
            right = _is_number(part) or (part is None and of)
            check.ensure(
                bool(right), f"returned {describe_type(part)} for {name}{of}, not a number"
            )
    return dict(results)


@contextmanager
def samples_unchanged(metric: object, samples: Tensor) -> Iterator[None]:
    """Raise if a metric changes the samples in place."""
    with ComponentCheck("metric", metric).unchanged(samples=samples):
        yield


def _is_number(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.numel() == 1 and not value.is_complex()
    return isinstance(value, numbers.Real) and not isinstance(value, bool)

"""Checks of what a metric computes."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from elbowroom.plugins.conformance.component_checks import ComponentCheck, describe_type
from torch import Tensor

from .metric import Measurement


def check_measurements(metric: object, said: Any) -> Mapping[str, Measurement | float]:
    """What a metric said: names, and a number or a Measurement for each."""
    asked = ComponentCheck("metric", metric)
    asked.ensure(
        isinstance(said, Mapping),
        f"computed {describe_type(said)}, not a mapping of names to measurements",
    )
    for name, value in said.items():
        asked.ensure(isinstance(name, str), f"named a measurement {name!r}, which is no text")
        measurement = value if isinstance(value, Measurement) else Measurement(value)
        parts = {"": measurement.value, "'s standard error": measurement.standard_error}
        for of, part in {**parts, "'s floor": measurement.floor}.items():
            right = _is_number(part) or (part is None and of)
            asked.ensure(bool(right), f"said {describe_type(part)} for {name}{of}, not a number")
    return dict(said)


@contextmanager
def untouched(metric: object, samples: Tensor) -> Iterator[None]:
    """A metric may not change the samples that the next one sees."""
    with ComponentCheck("metric", metric).unchanged(samples=samples):
        yield


def _is_number(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.numel() == 1 and not value.is_complex()
    return isinstance(value, numbers.Real) and not isinstance(value, bool)

"""The protocol of an evaluation: metrics, number of samples, seeds."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import attrs
from elbowroom import (
    ComponentSpec,
    ConfigError,
    ElbowroomError,
    PluginError,
    installed,
    named_component,
)
from elbowroom.config import check_integer, options_of, parse_spec, show
from elbowroom.plugins.training.precision import Precision, check_precision

from .metric import Metric


@attrs.frozen(kw_only=True)
class EvaluationProtocol:
    """Options of an evaluation. Measurements with the same protocol are comparable."""

    metrics: tuple[Any, ...] = attrs.field(  # names or mappings; empty: the default metrics
        default=(), validator=lambda _, __, value: _check_metrics(value)
    )
    features: str | None = None  # feature network of all metrics that use one
    reference: str | None = None  # .npz that metrics compare with instead of the data
    samples: int = attrs.field(
        default=1000, validator=lambda _, __, value: check_integer("samples", value, 2)
    )
    seed: int = attrs.field(
        default=0, validator=lambda _, __, value: check_integer("seed", value, 0)
    )
    sample_seeds: int = attrs.field(
        default=1, validator=lambda _, __, value: check_integer("sample_seeds", value, 1)
    )
    """Number of sample sets, with ``seed``, ``seed + 1``, ...; their metrics are averaged."""
    checkpoint: str = "best"  # or "last", or a step
    precision: Precision = attrs.field(
        default="float32", validator=lambda _, __, value: check_precision(value)
    )

    @property
    def seeds(self) -> range:
        """The seed of each set of samples."""
        return range(self.seed, self.seed + self.sample_seeds)

    def record(self) -> dict[str, Any]:
        """As JSON data."""
        return {**attrs.asdict(self), "metrics": list(self.metrics)}

    def build(self) -> dict[str, Metric]:
        """Build the metrics by name; a second one of the same name is ``name 2``."""
        built: dict[str, Metric] = {}
        specs: list[ComponentSpec] = []
        for given in self.metrics or usual_metrics():
            spec = self._spec(given)
            metric: Metric = spec.build()
            same = [one for one in specs if one.name == spec.name]
            if same and (spec in same or metric.display):  # they would have the same measurements
                raise ElbowroomError(f"metric {spec.name} is named twice")
            built[f"{spec.name} {len(same) + 1}" if same else spec.name] = metric
            specs.append(spec)
        if self.reference is not None and not any("reference" in spec.options for spec in specs):
            raise ElbowroomError("--reference: none of the metrics compares with a file")
        return built

    def _spec(self, given: Any) -> ComponentSpec:
        """The spec of a metric, with the common feature network and reference if it takes them."""
        wanted = parse_spec(given) if isinstance(given, str) else given
        spec = named_component("metric", wanted, path="--metric")
        if spec.component is None or spec.instance is not None:
            return spec
        named = dict(wanted) if isinstance(wanted, Mapping) else {"name": wanted}
        common = {"features": self.features, "reference": self.reference}
        taken = {k: v for k, v in common.items() if v is not None and k in options_of(spec.cls)}
        return named_component("metric", {**taken, **named}, path="--metric")


def _check_metrics(given: Any) -> None:
    if not isinstance(given, list | tuple):
        raise ConfigError(f'metrics: got {show(given)}; allowed: a list, as in ("bpd", "fid")')


def usual_metrics() -> list[str]:
    """Names of the default metrics, in order."""
    places = {}
    for name, component in installed().components("metric").items():
        with suppress(PluginError):  # reported by ``elbowroom plugins``
            places[name] = vars(component.load()).get("usual")
    return sorted((n for n, at in places.items() if at is not None), key=lambda n: places[n])

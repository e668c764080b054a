"""The kinds of component, in one table: it drives hooks, contracts, scaffold, laws and docs.

A new kind is one row here and one contract in :mod:`elbowroom.contracts`.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen
class Kind:
    """What a plugin can supply: under which hook, and by which contract."""

    name: str  # in configs and messages: "time_sampler"
    hook: str  # of plugins: "time_samplers"
    contract: str  # "module:Class" that its components derive from, or a protocol of functions
    meaning: str  # one line, for the hook's own documentation
    is_class: bool = True  # False: a function
    also: str = ""  # "module:Class" of another library that does: its classes, and functions

    @property
    def words(self) -> str:
        """In a sentence: ``time sampler``."""
        return self.name.replace("_", " ")

    @property
    def plural(self) -> str:
        """In a sentence: ``time samplers``."""
        return self.hook.replace("_", " ")


def _table(*rows: Kind) -> Mapping[str, Kind]:
    return {row.name: row for row in rows}


_C = "elbowroom.contracts"

KINDS: Mapping[str, Kind] = _table(
    Kind("process", "processes", f"{_C}.process:Process", "Noise processes"),
    Kind("schedule", "schedules", f"{_C}.schedule:Schedule", "Log-SNR schedules"),
    Kind("weighting", "weightings", f"{_C}.weighting:Weighting", "Weightings of the objective"),
    Kind("denoiser", "denoisers", f"{_C}.denoiser:Denoiser", "Networks", also="torch.nn:Module"),
    Kind("sampler", "samplers", f"{_C}.sampler:Sampler", "Ways from noise to data"),
    Kind(
        "time_sampler",
        "time_samplers",
        f"{_C}.time_sampler:TimeSampler",
        "At which times a training step looks",
    ),
    Kind("normaliser", "normalisers", f"{_C}.normaliser:Normaliser", "What losses are divided by"),
    Kind("grid", "grids", f"{_C}.grid:Grid", "At which times a sampler stops"),
    Kind("guidance", "guidances", f"{_C}.guidance:Guidance", "Ways to follow a label more closely"),
    Kind("optimiser", "optimisers", f"{_C}.optimiser:Optimiser", "From gradients to updates"),
    Kind(
        "rate_schedule",
        "rate_schedules",
        f"{_C}.rate_schedule:RateSchedule",
        "The learning rate over a run",
    ),
    Kind("dataset", "datasets", f"{_C}.dataset:Dataset", "Data sets"),
    Kind("metric", "metrics", f"{_C}.metric:Metric", "Measurements of samples"),
    Kind(
        "feature_network",
        "feature_networks",
        f"{_C}.feature_network:FeatureNetwork",
        "What metrics see of a picture",
    ),
    Kind("launcher", "launchers", f"{_C}.launcher:Launcher", "Where jobs run"),
    Kind("exporter", "exporters", f"{_C}.exporter:Exporter", "Forms for other libraries"),
    Kind(
        "command",
        "commands",
        f"{_C}.command:Command",
        "Commands of the command line",
        is_class=False,
    ),
)
"""Kind -> its row."""

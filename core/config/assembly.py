"""From a config to a model, with the checks that its components fit together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..errors import ConfigError, IncompatibleError
from .reader import named_component
from .sections import Config
from .spec import ComponentSpec

if TYPE_CHECKING:
    from pathlib import Path as FilePath

    from ..contracts.dataset import Dataset, DataSpec
    from ..contracts.path import Path
    from ..contracts.process import Process, Signature
    from ..contracts.sampler import Sampler
    from ..contracts.schedule import Schedule
    from ..contracts.weighting import Weighting
    from ..objective.diffusion import Diffusion
    from ..objective.loss import Objective


@attrs.frozen(eq=False)
class Parts:
    """The components of a config, built; None for those it does not name."""

    config: Config  # with its schedule, also if the process chose it
    process: Process  # bound to the data, if any
    schedule: Schedule
    weighting: Weighting  # before ``prepare``
    data: Dataset | None
    spec: DataSpec | None  # the form of the data, also without data files
    sampler: Sampler | None
    run: FilePath | None = None  # the run they were loaded from

    def dataset(self) -> Dataset:
        """The data set, built now if the parts were built without it."""
        if self.data is not None:
            return self.data
        if self.config.data is None:
            raise ConfigError(
                "data: a run needs a data set, and this config names none; data made in Python "
                "must be given again: er.resume(run, data=...), er.evaluate(run, data=...)"
            )
        data: Dataset = self.config.data.build()
        return data


def build_parts(config: Config, spec: DataSpec | None = None) -> Parts:
    """Build everything but the network, and check that it fits together.

    With the ``spec`` of the data (of a run) no data set is built.
    """
    data: Dataset | None = None
    if spec is None and config.data is not None:
        data = config.data.build()
        spec = data.spec
    process = _process(config, spec)
    sampler: Sampler | None = None if config.sampler is None else config.sampler.build()
    if sampler is not None:
        _check_sampler(sampler, process, config)
    schedule = config.schedule or natural_schedule(process)
    config = attrs.evolve(config, schedule=schedule)
    return Parts(config, process, schedule.build(), config.weighting.build(), data, spec, sampler)


def natural_schedule(process: Process) -> ComponentSpec:
    """The schedule of a process if a config names none."""
    given = {"name": process.natural_schedule, **process.natural_schedule_options()}
    return named_component("schedule", given, path="schedule")


def with_schedule(config: Config, spec: DataSpec | None) -> Config:
    """The config with its schedule filled in, by the process if it has none."""
    schedule = config.schedule or natural_schedule(_process(config, spec))
    return attrs.evolve(config, schedule=schedule)


def _process(config: Config, spec: DataSpec | None) -> Process:
    process: Process = config.process.build()
    return process if spec is None else process.bind(spec)


def build_model(parts: Parts) -> Diffusion:
    """The model of built parts; initial weights depend on the config's seed only."""
    from torch import nn

    from ..objective.diffusion import Diffusion
    from ..randomness.generators import preserve_generators, seed_generators

    config = parts.config
    if parts.spec is None or config.denoiser is None:
        missing = "data" if parts.spec is None else "denoiser"
        raise ConfigError(f"{missing}: a model needs one, and this config names none")
    objective = build_objective(parts)
    signature = network_signature(config, parts.process)
    with preserve_generators():
        seed_generators(config.seed)
        denoiser = config.denoiser.build(signature)
    if not isinstance(denoiser, nn.Module):
        made = type(denoiser).__name__
        raise ConfigError(f"denoiser: {config.denoiser.name} made a {made}, not a torch.nn.Module")
    if signature.level_per_position and not getattr(denoiser, "takes_level_per_position", False):
        raise IncompatibleError(
            f"denoiser {config.denoiser.name} takes one level per example, but objective.path "
            f"{config.objective.path.name} has one per position: use dit or uvit, or set "
            "takes_level_per_position = True on a network that takes log_snr [B, *shape]"
        )
    return Diffusion(objective, denoiser, parts.sampler)


def network_signature(config: Config, process: Process) -> Signature:
    """Input and output spaces of the network: those of the process, with levels as on the path."""
    signature = process.signature()
    per_position = config.objective.path.build().per_position and signature.needs_level
    return attrs.evolve(signature, level_per_position=per_position)


def build_objective(parts: Parts) -> Objective:
    """The objective of built parts; needs neither a network nor data files."""
    from ..objective.loss import Objective

    config = parts.config
    parts.process.check_schedule(parts.schedule)
    return Objective.prepared(
        parts.process,
        parts.schedule,
        parts.weighting,
        config.objective.times.build(),
        steps=config.objective.steps,
        normaliser=config.objective.normalise.build(),
        path=build_path(parts),
    )


def build_path(parts: Parts) -> Path:
    """The path of the objective, for the data's form."""
    path: Path = parts.config.objective.path.build()
    return path if parts.spec is None else path.prepare(parts.spec)


def check_files(config: Config) -> None:
    """Refuse a sampler whose grid is computed from a file that cannot be read.

    Not checked by ``build_parts``: a run can be loaded without it.
    """
    if config.sampler is not None:
        config.sampler.build().grid.made_from()


def _check_sampler(sampler: Sampler, process: Process, config: Config) -> None:
    assert config.sampler is not None
    missing, name = sampler.needs - process.traits, config.process.name
    if missing:
        raise IncompatibleError(
            f"sampler '{config.sampler.name}' cannot serve process '{name}': it needs "
            f"a process that is {', '.join(sorted(missing))}; '{name}' is "
            f"{', '.join(sorted(process.traits))}"
        )
    if sampler.needs_null_label and not config.train.label_dropout:
        raise IncompatibleError(
            f"sampler.guidance={sampler.guidance} needs a model that was trained without its "
            "label now and then, and train.label_dropout is 0: set it to 0.1, say, and "
            "denoiser.null_class to true"
        )

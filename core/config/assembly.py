"""From a config to a model: the only place that asks whether components fit together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..errors import ConfigError, IncompatibleError
from .reader import component_spec
from .sections import Config
from .sizes import check_example, check_network, check_path
from .spec import ComponentSpec, build_nested

if TYPE_CHECKING:
    from ..contracts.dataset import Dataset, DataSpec
    from ..contracts.process import Process
    from ..contracts.sampler import Sampler
    from ..contracts.schedule import Schedule
    from ..contracts.weighting import Weighting
    from ..objective.diffusion import Diffusion
    from ..registry.components import Registry


@attrs.frozen(eq=False)
class Parts:
    """The components a config names, built; what it does not name is None."""

    config: Config  # its schedule written out, also where the process chose it
    process: Process  # bound to the data's form where there is data
    schedule: Schedule
    weighting: Weighting  # as named; the objective prepares it
    data: Dataset | None
    spec: DataSpec | None  # the form of the data, known also where the data itself is not needed
    sampler: Sampler | None

    def dataset(self) -> Dataset:
        """The data itself, looked for now where the parts were built without it."""
        if self.data is not None:
            return self.data
        if self.config.data is None:
            raise ConfigError("data: a run needs a data set, and this config names none")
        data: Dataset = self.config.data.build()
        return data


def build_parts(
    config: Config, registry: Registry | None = None, spec: DataSpec | None = None
) -> Parts:
    """Everything but the network, checked for fit.

    With the ``spec`` of data that was there before (a run's), no data set is looked for.
    """
    process: Process = config.process.build()
    data: Dataset | None = None
    if spec is None and config.data is not None:
        data = config.data.build()
        spec = data.spec
    if spec is not None:
        check_example(spec)
        process = process.bind(spec)
    sampler: Sampler | None = None if config.sampler is None else config.sampler.build()
    if config.sampler is not None and sampler is not None:
        _check_sampler(config.sampler, sampler, config.process, process)
        _check_guidance(sampler, config)
        check_path(sampler.steps)
    schedule_spec = config.schedule or natural_schedule(process, registry)
    config, schedule = attrs.evolve(config, schedule=schedule_spec), schedule_spec.build()
    return Parts(config, process, schedule, config.weighting.build(), data, spec, sampler)


def natural_schedule(process: Process, registry: Registry | None = None) -> ComponentSpec:
    """The schedule a process uses where a config names none."""
    given = {"name": process.natural_schedule, **process.natural_schedule_options()}
    return component_spec("schedule", given, registry=registry, path="schedule")


def settled(config: Config, spec: DataSpec | None) -> Config:
    """The config with the schedule written out that its process chooses for data of this form."""
    if config.schedule is not None:
        return config
    process: Process = config.process.build()
    if spec is not None:
        process = process.bind(spec)
    return attrs.evolve(config, schedule=natural_schedule(process))


def build_model(parts: Parts) -> Diffusion:
    """The network and its objective; weights depend on the config's seed alone."""
    from ..objective.diffusion import Diffusion
    from ..objective.loss import NORMALISERS, Objective
    from ..randomness.generators import kept_generators, seed_generators

    config = parts.config
    if parts.spec is None or config.denoiser is None:
        missing = "data" if parts.spec is None else "denoiser"
        raise ConfigError(f"{missing}: a model needs one, and this config names none")
    parts.process.check_schedule(parts.schedule)
    signature = parts.process.signature()
    check_network(config.denoiser, signature)
    with kept_generators():
        seed_generators(config.seed)
        denoiser = config.denoiser.build(signature)
    objective = Objective.prepared(
        parts.process,
        parts.schedule,
        parts.weighting,
        build_nested(config.objective.times),
        steps=config.objective.steps,
        normaliser=NORMALISERS[config.objective.normalise],
    )
    return Diffusion(objective, denoiser, parts.sampler)


def _check_sampler(
    sampler_spec: ComponentSpec, sampler: Sampler, process_spec: ComponentSpec, process: Process
) -> None:
    missing = sampler.needs - process.traits
    if missing:
        raise IncompatibleError(
            f"sampler '{sampler_spec.name}' cannot serve process '{process_spec.name}': it needs "
            f"a process that is {', '.join(sorted(missing))}; '{process_spec.name}' is "
            f"{', '.join(sorted(process.traits))}"
        )


def _check_guidance(sampler: Sampler, config: Config) -> None:
    if sampler.guidance != 1 and not config.train.label_dropout:
        raise IncompatibleError(
            f"sampler.guidance={sampler.guidance:g} needs a model that was trained without its "
            "label now and then, and train.label_dropout is 0: set it to 0.1, say, and "
            "denoiser.null_class to true"
        )

"""The Python interface: assemble, save and load a model.

    import elbowroom as er

    model = er.assemble("digits", process="gaussian")
    result = er.train(model, "runs/gaussian", steps=300)
    drawn = er.sample(model, 16, steps=32)
    measurements = er.evaluate(model, metrics=("bpd",)).measurements
    model = er.load("runs/gaussian")

    model = er.assemble(process="masked", data="digits", denoiser=MyNetwork)
    loss = model(x, y).loss                 # in any training loop
    er.save(model, "runs/mine")

A model keeps the config and the data it was assembled from, so it can be trained and evaluated
without naming them again.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from .config.assembly import Parts, build_model, build_parts
from .config.messages import check_path, show
from .config.override import merge_overrides
from .config.sections import Config, load_config, named_component
from .contracts.dataset import DataSpec
from .errors import ConfigError, ElbowroomError
from .registry.components import installed

if TYPE_CHECKING:
    import torch

    from .contracts.dataset import Dataset
    from .contracts.sampler import Sampler
    from .objective.diffusion import Diffusion
    from .objective.loss import Objective


def assemble(
    source: str | PathLike[str] | Mapping[str, Any] | Config | None = None,
    overrides: Mapping[str, Any] | tuple[str, ...] = (),
    **changes: Any,
) -> Diffusion:
    """Build the untrained model that a config describes.

    Args:
        source: A preset's name, a YAML file, a mapping of sections, or a config. Without it the
            keywords are the config.
        overrides: Single values, ``{"train.steps": 10}`` or ``("train.steps=10",)``.
        **changes: Sections to replace, ``process="gaussian"``. A component is a name, a mapping
            with ``name`` and options, or an object. ``denoiser`` may be any ``torch.nn.Module``
            (or its class) that maps (z, log_snr, cond) to the output of the process's signature;
            ``data`` may be a torch data set of integers, arrays, or a ``DataSpec`` alone.

    Returns:
        The model. ``model(x, y).loss`` is its training loss; ``sample(model, 16)`` draws samples.

    Raises:
        ConfigError: If the config cannot be read. The message has a line for each problem.
        IncompatibleError: If two components cannot work together.

    Example:
        >>> model = assemble("digits", {"train.steps": 10}, process="gaussian")
    """
    spec = changes["data"] if isinstance(changes.get("data"), DataSpec) else None
    if spec is not None:
        changes["data"] = None
    if source is None:
        config = load_config(changes, overrides)
    else:
        config = load_config(source, merge_overrides(changes, overrides))
    parts = build_parts(config, spec)
    model = attach_parts(build_model(parts), parts)
    installed().hook.assembled(model=model)
    return model


def build_objective(
    process: Any,
    data: DataSpec,
    *,
    weighting: Any = None,
    schedule: Any = None,
    **options: Any,
) -> Objective:
    """Build the objective of a process for data of a given form, without a config.

    Args:
        process: A name, a mapping with ``name`` and options, or an object.
        data: The form of the data.
        weighting: As ``process`` (default: the ELBO).
        schedule: As ``process`` (default: the process's natural schedule).
        **options: Options of the config's section ``objective``.

    Returns:
        The objective. ``Diffusion(objective, network, sampler)`` makes a model of it.

    Example:
        >>> build_objective("masked", DataSpec((8, 8, 1), levels=17), weighting="sigmoid")
    """
    from .config import assembly

    if not isinstance(data, DataSpec):
        raise ConfigError(f"data: got {show(data)}; allowed: a DataSpec")
    named = {"process": process, "weighting": weighting, "schedule": schedule, "objective": options}
    config = load_config({key: value for key, value in named.items() if value is not None})
    return assembly.build_objective(build_parts(config, data))


def build_sampler(name: Any, **options: Any) -> Sampler:
    """Build a sampler by name: ``build_sampler("ancestral", steps=64)``.

    Args:
        name: A name, a mapping with ``name`` and options, or a sampler.
        **options: Options of the sampler, if ``name`` is text.
    """
    given = {"name": name, **options} if isinstance(name, str) else name
    sampler: Sampler = named_component("sampler", given).build()
    return sampler


def save(model: Diffusion, out: str | PathLike[str], *, step: int = 0) -> Path:
    """Write a model as a run, which every command and :func:`load` accept.

    Args:
        model: A model of :func:`assemble` or :func:`load`.
        out: A new folder. It gets the config, the weights, and references to user code.
        step: Number of updates the weights have had.

    Returns:
        The folder.

    Raises:
        ConfigError: If a component cannot be found by another program.
        RunError: If ``out`` is in use or cannot be written.
    """
    from .runs.from_model import save_run

    check_path("out", out)
    return save_run(model, recordable_parts(parts_of(model)), out, step)


def load(
    run: str | PathLike[str],
    overrides: Mapping[str, Any] | tuple[str, ...] = (),
    *,
    checkpoint: str | int = "best",
    device: torch.device | str | None = None,
    trust: bool = False,
    **changes: Any,
) -> Diffusion:
    """Load the model of a run with its averaged weights, in evaluation mode.

    Args:
        run: The run's folder.
        overrides: Single values of the config to change, as in :func:`assemble`.
        checkpoint: ``"best"`` (lowest validation bits/dim), ``"last"`` or a step.
        device: Default: a GPU if available, else the CPU.
        trust: Execute code that the run names (``./my.py:Net``). Read the code first. Code that you
            name yourself, ``load(run, denoiser=Net)``, needs no trust.
        **changes: Sections to replace, as in :func:`assemble`.

    Returns:
        The model. No data files are read.

    Raises:
        ElbowroomError: If the run has no usable checkpoint, or names untrusted code.

    Example:
        >>> drawn = sample(load("runs/gaussian"), 16)
    """
    from .runs.load import load_run

    both = merge_overrides(changes, overrides)
    loaded = load_run(run, both, checkpoint, device=device, trust=trust)
    return attach_parts(loaded.model, loaded.parts)


# -- the parts of a model


def parts_of(model: Diffusion) -> Parts:
    """The config, data and components a model was assembled from.

    Raises:
        ElbowroomError: If the model was not made by :func:`assemble` or :func:`load`.
    """
    parts = getattr(model, "__dict__", {}).get("parts")
    if not isinstance(parts, Parts):
        raise ElbowroomError(
            "this model was not made by elbowroom.assemble or elbowroom.load, so its config and "
            "data are unknown. Assemble it, with denoiser= your network."
        )
    return parts


def attach_parts(model: Diffusion, parts: Parts) -> Diffusion:
    """The model, with the parts it was assembled from as an attribute."""
    object.__setattr__(model, "parts", parts)  # not a submodule
    return model


def with_sampler(model: Diffusion, options: Mapping[str, Any]) -> Diffusion:
    """The same network with another sampler or other sampler options. Nothing is copied."""
    from .objective.diffusion import Diffusion
    from .runs.load import of_run

    changes = {f"sampler.{key}": value for key, value in options.items() if key != "sampler"}
    if "sampler" in options:
        changes = {"sampler": options["sampler"], **changes}
    now = vars(model).get("parts")
    if isinstance(now, Parts):
        parts = build_parts(load_config(now.config, changes), now.spec)
        parts = attrs.evolve(parts if now.run is None else of_run(parts, now.run), data=now.data)
        return attach_parts(Diffusion(model.objective, model.denoiser, parts.sampler), parts)
    named = {"process": model.process, "sampler": model.sampler}
    sampler = build_parts(load_config(named, changes), model.process.data).sampler
    return Diffusion(model.objective, model.denoiser, sampler)


def as_dataset(given: Any) -> Dataset:
    """A data set from its name, a mapping, an object, a torch data set or arrays."""
    data: Dataset = named_component("dataset", given, path="data").build()
    return data


def recordable_parts(parts: Parts) -> Parts:
    """The parts with a config that can be written: data made in Python are left out of it."""
    data = parts.config.data
    if data is None or data.given is not None:
        return parts
    warnings.warn(
        "data were made in Python and have no name. The run can be sampled; to resume or evaluate "
        "it, pass the data again (er.resume(run, data=...)).",
        stacklevel=3,
    )
    return attrs.evolve(parts, config=attrs.evolve(parts.config, data=None))

"""The library in a few verbs, as pleasant as the command line.

    import elbowroom as er

    model = er.assemble("digits", process="gaussian")
    result = er.train(model, "runs/gaussian", steps=300)
    drawn = er.sample(model, 16, steps=32)
    measurements = er.evaluate(model, metrics=("bpd",)).measurements
    model = er.load("runs/gaussian")        # another day

    model = er.assemble(process="masked", data="digits", denoiser=MyNetwork)
    loss = model(x, y).loss                 # a loop of your own, or of another library
    er.save(model, "runs/mine")

A model remembers the config and the data it was assembled from, so it can be trained and evaluated
as it is. Everything here is made of parts that can be used on their own: a training loop of your
own needs ``model(x, y).loss`` and nothing else.
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
    """The model that a config describes, untrained.

    Keywords swap sections, overrides single values: ``assemble("digits", {"train.steps": 10},
    process="gaussian")``; without a source they are all there is. A component may also be given as
    an object, ``denoiser`` as any ``torch.nn.Module`` that maps (z, log_snr, cond) to what the
    process asks for, or as its class; ``data`` as a torch data set of integers, or as a
    ``DataSpec`` alone.
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
    """The objective of a process for data of a form: by names, mappings or objects, no config.

    ``build_objective("masked", DataSpec((8, 8, 1), levels=17), weighting="sigmoid")``; other
    keywords are of the config's section ``objective``. Its ``process`` and ``schedule`` are
    attributes; with a network and a sampler it is a model: ``Diffusion(objective, net, sampler)``.
    """
    from .config import assembly

    if not isinstance(data, DataSpec):
        raise ConfigError(f"data: got {show(data)}; allowed: a DataSpec")
    named = {"process": process, "weighting": weighting, "schedule": schedule, "objective": options}
    config = load_config({key: value for key, value in named.items() if value is not None})
    return assembly.build_objective(build_parts(config, data))


def build_sampler(name: Any, **options: Any) -> Sampler:
    """A sampler by name: ``build_sampler("ancestral", steps=64)``."""
    given = {"name": name, **options} if isinstance(name, str) else name
    sampler: Sampler = named_component("sampler", given).build()
    return sampler


def save(model: Diffusion, out: str | PathLike[str], *, step: int = 0) -> Path:
    """Make a run of a model, in the new folder ``out``, which every command takes.

    It has the weights, the config, and where your own code is. ``step`` is the number of updates
    that the weights have had.
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
    """The model of a run with its averaged weights: ``checkpoint`` is "best", "last" or a step.

    It is on ``device``, or else on a GPU if there is one. Keywords swap sections, as in
    :func:`assemble`.

    Code that a run names (``./my.py:Net``) is refused unless you name it, ``load(run,
    denoiser=Net)``, or pass ``trust=True``. Read it first.
    """
    from .runs.load import load_run

    both = merge_overrides(changes, overrides)
    loaded = load_run(run, both, checkpoint, device=device, trust=trust)
    return attach_parts(loaded.model, loaded.parts)


# -- what a model remembers


def parts_of(model: Diffusion) -> Parts:
    """The config, data and components a model was assembled from."""
    parts = getattr(model, "__dict__", {}).get("parts")
    if not isinstance(parts, Parts):
        raise ElbowroomError(
            "this model was not made by elbowroom.assemble or elbowroom.load, so nothing is known "
            "of its config and data: assemble it, with denoiser= a network of yours"
        )
    return parts


def attach_parts(model: Diffusion, parts: Parts) -> Diffusion:
    """The model, with the parts it was assembled from as an attribute."""
    object.__setattr__(model, "parts", parts)  # no part of the network: past torch's bookkeeping
    return model


def with_sampler(model: Diffusion, options: Mapping[str, Any]) -> Diffusion:
    """The same network with another sampler, or other options of its own; nothing is copied."""
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
    """With a config that can be written down: data made in Python are left out of it."""
    data = parts.config.data
    if data is None or data.given is not None:
        return parts
    warnings.warn(
        "data were made in Python and have no name: the run can be sampled as any other, and to "
        "resume or evaluate it they must be given again (er.resume(run, data=...))",
        stacklevel=3,
    )
    return attrs.evolve(parts, config=attrs.evolve(parts.config, data=None))

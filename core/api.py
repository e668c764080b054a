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
from collections.abc import Collection, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from .config.assembly import Parts, build_model, build_parts
from .config.sections import Config, load_config, named_component
from .contracts.dataset import DataSpec
from .contracts.metric import EVALUATION_BATCH
from .errors import ConfigError, ElbowroomError

if TYPE_CHECKING:
    import torch

    from .contracts.dataset import Dataset
    from .contracts.sampler import Sampler
    from .evaluation.evaluation import Evaluation
    from .objective.diffusion import Diffusion
    from .objective.loss import Objective
    from .sampling.drawing import Drawn, Labels
    from .training.loop import RunResult


def assemble(
    source: str | PathLike[str] | Mapping[str, Any] | Config | None = None,
    overrides: Mapping[str, Any] | tuple[str, ...] = (),
    **changes: Any,
) -> Diffusion:
    """The model that a config describes, untrained.

    Keywords swap sections, overrides single values: ``assemble("digits", {"train.steps": 10},
    process="gaussian")``; without a source they are all there is. A component may also be given as
    an object, ``denoiser`` as any ``torch.nn.Module`` that maps (z, log_snr, cond) to what the
    process asks for, as its class or as a function that makes it; ``data`` as a torch data set of
    integers, or as a ``DataSpec`` alone.
    """
    spec = changes.pop("data") if isinstance(changes.get("data"), DataSpec) else None
    if spec is not None or "data" in changes:
        changes["data"] = None if spec is not None else _of_torch(changes["data"])
    config = load_config(changes if source is None else source, overrides)
    if changes:
        config = load_config(config, changes)
    return _checked(_with_parts(build_parts(config, spec)))


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

    It keeps the weights, the config, and where the code of your own is, with its sha256. ``step``
    says how many updates the weights have behind them.
    """
    from .runs.from_model import save_run

    return save_run(model, _lasting(parts_of(model)), out, step)


def load(
    run: str | PathLike[str],
    overrides: Mapping[str, Any] | tuple[str, ...] = (),
    *,
    checkpoint: str | int = "best",
    device: torch.device | str | None = None,
    trust: bool = False,
) -> Diffusion:
    """The model of a run with its averaged weights: ``checkpoint`` is "best", "last" or a step.

    It is on ``device``, or else on a GPU if there is one.

    A run is data: code that it refers to and that was not trained with here is executed only with
    ``trust``, and only if it is what the run recorded. Read it first.
    """
    from .runs.load import load_run

    loaded = load_run(run, overrides, checkpoint, device=device, trust=trust)
    return _remember(loaded.model, loaded.parts)


def train(
    model: Diffusion | str | PathLike[str] | Mapping[str, Any] | Config,
    out: str | PathLike[str],
    *,
    device: str | None = None,
    without: Collection[str] = (),
    go_on: bool = False,
    **options: Any,
) -> RunResult:
    """Train a model in the new run folder ``out``; afterwards it has the averaged weights.

    ``model`` may also be a config, as for :func:`assemble`. Keywords are options of the config's
    section ``train``; ``without`` names observers that shall not be told (``console``). With
    ``go_on`` a run of the same config that has begun there is gone on with.
    """
    from .objective.diffusion import Diffusion
    from .runs.checkpoint import load_weights
    from .runs.folder import RunFolder
    from .training import run

    if not isinstance(model, Diffusion):
        config = _changed(load_config(model), options)
        return run.train(config, out, device=device, without=without, go_on=go_on)
    config = _changed(parts_of(model).config, options)
    parts = _lasting(attrs.evolve(parts_of(model), config=config))
    config = parts.config
    _warn_of_main(config)
    result = run.train(
        config, out, built=(parts, model), device=device, without=without, go_on=go_on
    )
    latest = RunFolder(Path(out)).latest()
    if latest is not None:
        load_weights(model, latest)
    _remember(model, parts)
    model.eval()
    return result


def _warn_of_main(config: Config) -> None:
    """Say what a run will not be good for while there is time to change it."""
    from .runs.provenance import of_the_script

    for spec in of_the_script(config):
        warnings.warn(
            f"{spec.path}: {spec.name.partition(':')[2]} is defined in the script that runs: only "
            "this script can load or resume the run; in a file of its own every command can",
            stacklevel=3,
        )


def _changed(config: Config, options: Mapping[str, Any]) -> Config:
    """With other options of training."""
    return load_config(config, {f"train.{name}": value for name, value in options.items()})


def resume(
    run: str | PathLike[str],
    overrides: Mapping[str, Any] | tuple[str, ...] = (),
    *,
    device: str | None = None,
    without: Collection[str] = (),
    trust: bool = False,
    restart: bool = False,
    config: Config | None = None,
    data: Any = None,
) -> RunResult:
    """Go on with a run; ``overrides`` may lengthen it or change what is logged and kept.

    Code of a run from elsewhere is executed only with ``trust``; ``restart`` begins a run again
    whose checkpoints are lost. A ``config`` that is given must be the run's own; ``data`` are what
    a run was trained on whose data have no name.
    """
    from .training.run import resume

    return resume(
        run,
        overrides,
        config=config,
        data=None if data is None else _dataset(data),
        device=device,
        without=without,
        trust=trust,
        restart=restart,
    )


def sample(
    model: Diffusion | str | PathLike[str],
    count: int = 64,
    *,
    labels: Labels = None,
    seed: int = 0,
    batch_size: int = 64,
    device: torch.device | str | None = None,
    precision: str = "float32",
    trust: bool = False,
    **options: Any,
) -> Drawn:
    """``count`` samples of a model or of a run; keywords are options of its sampler.

    ``sampler`` takes another one: ``sample(model, 16, sampler="ddim", steps=50)``.
    Sample number i is the same however many are drawn and however large the batches are. They are
    drawn on ``device``, or the accelerator the model is on, or what there is; a model comes back
    from there.
    """
    import torch

    from .objective.diffusion import Diffusion
    from .runs.precision import working
    from .sampling.drawing import Drawn, draw

    model = model if isinstance(model, Diffusion) else load(model, device=device, trust=trust)
    if options:
        model = _with_sampler(model, options)
    with working(model, device, precision):
        chunks = list(draw(model, count, labels, seed, batch_size))
    told = [chunk.labels for chunk in chunks if chunk.labels is not None]
    return Drawn(
        0,
        torch.cat([chunk.x for chunk in chunks]),
        torch.cat(told) if told else None,
        torch.cat([chunk.calls for chunk in chunks]),
    )


def evaluate(
    model: Diffusion | str | PathLike[str],
    *,
    data: Any = None,
    batch_size: int = EVALUATION_BATCH,
    device: torch.device | str | None = None,
    trust: bool = False,
    **protocol: Any,
) -> Evaluation:
    """The measurements of a model or of a run on the test split of its data, or of ``data``.

    Keywords say how it is evaluated: ``metrics``, ``samples``, ``seed``, ``features``,
    ``precision``. Where, as for :func:`sample`.
    """
    from .evaluation.evaluation import evaluate
    from .evaluation.protocol import EvaluationProtocol
    from .objective.diffusion import Diffusion
    from .sampling.drawing import evaluating

    model = model if isinstance(model, Diffusion) else load(model, device=device, trust=trust)
    try:
        asked = EvaluationProtocol(**protocol)
    except (TypeError, ValueError) as error:
        known = ", ".join(field.name for field in attrs.fields(EvaluationProtocol))
        raise ConfigError(f"{error.args[0]}; evaluate takes {known}") from error
    data = parts_of(model).dataset() if data is None else _dataset(data)
    with evaluating(model):
        return evaluate(model, data, asked, batch_size=batch_size, device=device)


# -- what a model remembers


def parts_of(model: Diffusion) -> Parts:
    """The config, data and components a model was assembled from."""
    parts = vars(model).get("parts")
    if not isinstance(parts, Parts):
        raise ElbowroomError(
            "this model was not made by elbowroom.assemble or elbowroom.load, so nothing is known "
            "of its config and data: assemble it, with denoiser= a network of yours"
        )
    return parts


def _with_parts(parts: Parts) -> Diffusion:
    return _remember(build_model(parts), parts)


def _remember(model: Diffusion, parts: Parts) -> Diffusion:
    object.__setattr__(model, "parts", parts)  # no part of the network: past torch's bookkeeping
    return model


def _with_sampler(model: Diffusion, options: Mapping[str, Any]) -> Diffusion:
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
        return _remember(Diffusion(model.objective, model.denoiser, parts.sampler), parts)
    named = {"process": model.process, "sampler": model.sampler}
    sampler = build_parts(load_config(named, changes), model.process.data).sampler
    return Diffusion(model.objective, model.denoiser, sampler)


def _dataset(given: Any) -> Dataset:
    data: Dataset = named_component("dataset", _of_torch(given), path="data").build()
    return data


def _of_torch(given: Any) -> Any:
    """A torch data set as one of ours; anything else as it is."""
    from torch.utils.data import Dataset as Torch

    from .contracts.torch_data import TorchData

    return TorchData(given) if isinstance(given, Torch) else given


def _lasting(parts: Parts) -> Parts:
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


def _checked(model: Diffusion) -> Diffusion:
    """A network that keeps no contract of ours is asked once whether it does what one would."""
    from .conformance.answers import check_own_network
    from .contracts.denoiser import Denoiser

    if not isinstance(model.denoiser, Denoiser):
        check_own_network(model)
    return model

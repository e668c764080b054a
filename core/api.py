"""The library in a few verbs, as pleasant as the command line.

    import elbowroom as er

    model = er.assemble("digits", process="gaussian")
    result = er.train(model, "runs/gaussian", steps=300)
    drawn = er.sample(model, 16, steps=32)
    measurements = er.evaluate(model, metrics=("bpd",)).measurements
    model = er.load("runs/gaussian")        # another day

A model remembers the config and the data it was assembled from, so it can be trained and evaluated
as it is. Everything here is made of parts that can be used on their own: a training loop of your
own needs ``model(x, y, noise).loss`` and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from .config.assembly import Parts, build_model, build_parts
from .config.sections import Config, load_config
from .contracts.metric import EVALUATION_BATCH
from .errors import ConfigError, ElbowroomError

if TYPE_CHECKING:
    import torch

    from .evaluation.model import Evaluation
    from .objective.diffusion import Diffusion
    from .sampling.drawing import Drawn, Labels
    from .training.loop import RunResult


def assemble(
    source: str | PathLike[str] | Mapping[str, Any] | Config,
    overrides: Mapping[str, Any] | tuple[str, ...] = (),
    **changes: Any,
) -> Diffusion:
    """The model that a config describes, untrained.

    Keywords swap sections, overrides single values: ``assemble("digits", {"train.steps": 10},
    process="gaussian")``. A component may also be given as an object.
    """
    config = load_config(source, overrides)
    if changes:
        config = load_config(config, changes)
    return _with_parts(build_parts(config))


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
    **options: Any,
) -> RunResult:
    """Train a model in the new run folder ``out``; afterwards it has the averaged weights.

    ``model`` may also be a config, as for :func:`assemble`. Keywords are options of the config's
    section ``train``; ``without`` names observers that shall not be told (``console``).
    """
    from .objective.diffusion import Diffusion
    from .runs.checkpoint import load_weights
    from .runs.folder import RunFolder
    from .training import run

    if not isinstance(model, Diffusion):
        return run.train(_changed(load_config(model), options), out, device=device, without=without)
    config = _changed(parts_of(model).config, options)
    parts = attrs.evolve(parts_of(model), config=config)
    result = run.train(config, out, built=(parts, model), device=device, without=without)
    latest = RunFolder(Path(out)).latest()
    if latest is not None:
        load_weights(model, latest)
    _remember(model, parts)
    model.eval()
    return result


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
) -> RunResult:
    """Go on with a run; ``overrides`` may lengthen it or change what is logged and kept.

    Code of a run from elsewhere is executed only with ``trust``; ``restart`` begins a run again
    whose checkpoints are lost. A ``config`` that is given must be the run's own.
    """
    from .training.run import resume

    return resume(
        run,
        overrides,
        config=config,
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

    Sample number i is the same however many are drawn and however large the batches are. They are
    drawn on ``device``, or the accelerator the model is on, or what there is; a model comes back
    from there.
    """
    import torch

    from .objective.diffusion import Diffusion
    from .runs.working import working
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
    batch_size: int = EVALUATION_BATCH,
    device: torch.device | str | None = None,
    trust: bool = False,
    **protocol: Any,
) -> Evaluation:
    """The measurements of a model or of a run on the test split of its data.

    Keywords say how it is evaluated: ``metrics``, ``samples``, ``seed``, ``features``,
    ``precision``. Where, as for :func:`sample`.
    """
    from .evaluation.model import evaluate
    from .evaluation.protocol import EvaluationProtocol
    from .objective.diffusion import Diffusion
    from .sampling.drawing import evaluating

    model = model if isinstance(model, Diffusion) else load(model, device=device, trust=trust)
    try:
        asked = EvaluationProtocol(**protocol)
    except (TypeError, ValueError) as error:
        known = ", ".join(field.name for field in attrs.fields(EvaluationProtocol))
        raise ConfigError(f"{error.args[0]}; evaluate takes {known}") from error
    data = parts_of(model).dataset()
    with evaluating(model):
        return evaluate(model, data, asked, batch_size=batch_size, device=device)


# -- what a model remembers


def parts_of(model: Diffusion) -> Parts:
    """The config, data and components a model was assembled from."""
    parts = vars(model).get("parts")
    if not isinstance(parts, Parts):
        raise ElbowroomError(
            "this model was not made by elbowroom.assemble or elbowroom.load, so nothing is known "
            "of its config and data: use elbowroom.training.loop.fit with a data set of yours"
        )
    return parts


def _with_parts(parts: Parts) -> Diffusion:
    return _remember(build_model(parts), parts)


def _remember(model: Diffusion, parts: Parts) -> Diffusion:
    object.__setattr__(model, "parts", parts)  # no part of the network: past torch's bookkeeping
    return model


def _with_sampler(model: Diffusion, options: Mapping[str, Any]) -> Diffusion:
    """The same network with other options of its sampler; nothing is copied."""
    from .objective.diffusion import Diffusion

    changes = {f"sampler.{name}": value for name, value in options.items()}
    parts = build_parts(load_config(parts_of(model).config, changes))
    return _remember(Diffusion(model.objective, model.denoiser, parts.sampler), parts)

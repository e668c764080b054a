"""``elbowroom.evaluate``: measurements of a model or a run."""

from __future__ import annotations

from os import PathLike
from typing import Any

import attrs
import torch
from elbowroom import ConfigError, Diffusion, load, parts_of
from elbowroom.api import as_dataset
from elbowroom.plugins.sampling.drawing import evaluation_mode
from elbowroom.registry import trusting

from .evaluation import Evaluation, evaluate as evaluate_model
from .metric import EVALUATION_BATCH
from .protocol import EvaluationProtocol


def evaluate(
    model: Diffusion | str | PathLike[str],
    *,
    data: Any = None,
    batch_size: int = EVALUATION_BATCH,
    device: torch.device | str | None = None,
    trust: bool = False,
    **protocol: Any,
) -> Evaluation:
    """Evaluate a model or a run on the test split of its data.

    Args:
        model: A model, or a run folder, of which the best averaged weights are loaded.
        data: Other data: a name, a data set or arrays, as for :func:`assemble`.
        batch_size: The number of samples or examples computed together.
        device: cpu, cuda, ... Default: the model's device if it is an accelerator, else the
            available device. A model is moved back afterwards.
        trust: Execute code that the run's config refers to (``./my.py:Net``).
        **protocol: Fields of :class:`EvaluationProtocol`: ``metrics``, ``samples``, ``seed``,
            ``sample_seeds``, ``features``, ``reference``, ``precision``.

    Returns:
        ``measurements`` by name, each with ``value``, ``standard_error`` and its protocol ``of``;
        ``skipped`` and ``failed`` metrics with the reason.

    Raises:
        ConfigError: A field of the protocol is unknown or invalid.
        IncompatibleError: A metric in ``metrics`` does not apply to the model or the data.

    Example:
        >>> found = er.evaluate("runs/digits", metrics=("bpd", "fid"), samples=1000)
        >>> found.measurements["bits_per_dim"].value
    """
    with trusting(trust):
        model = model if isinstance(model, Diffusion) else load(model, device=device)
    try:
        chosen = EvaluationProtocol(**protocol)
    except (TypeError, ValueError) as error:
        known = ", ".join(field.name for field in attrs.fields(EvaluationProtocol))
        raise ConfigError(f"{error.args[0]}; evaluate takes {known}") from error
    data = parts_of(model).dataset() if data is None else as_dataset(data)
    with trusting(trust), evaluation_mode(model):
        return evaluate_model(model, data, chosen, batch_size=batch_size, device=device)

"""``elbowroom.evaluate``: the measurements of a model or of a run."""

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
    """The measurements of a model or of a run on the test split of its data, or of ``data``.

    Keywords say how it is evaluated: ``metrics``, ``samples``, ``seed``, ``features``,
    ``precision``. Where, as for :func:`sample`.
    """
    with trusting(trust):
        model = model if isinstance(model, Diffusion) else load(model, device=device)
    try:
        asked = EvaluationProtocol(**protocol)
    except (TypeError, ValueError) as error:
        known = ", ".join(field.name for field in attrs.fields(EvaluationProtocol))
        raise ConfigError(f"{error.args[0]}; evaluate takes {known}") from error
    data = parts_of(model).dataset() if data is None else as_dataset(data)
    with trusting(trust), evaluation_mode(model):
        return evaluate_model(model, data, asked, batch_size=batch_size, device=device)

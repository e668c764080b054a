"""Logs run events to MLflow.

    train/loss, validation/bits_per_dim, ...   metrics by step
    process.name, train.steps, ...             parameters: every value of the config
    samples                                    images by step
    curves/elbo_by_level.json                  (x, y) of the last logging step, over lambda

Only the client is used: MLflow's global state, e.g. the active run of a script, does not change.
The run id is stored in ``RUN/mlflow-run-id``.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from elbowroom import ElbowroomError
from elbowroom.files import replace_file
from elbowroom.plugins.training.observers import flatten, tag

if TYPE_CHECKING:
    from elbowroom import RunEvent

_EXPERIMENT = "elbowroom"
_BATCH = 100  # parameters per request


@attrs.define(eq=False)
class _Run:
    client: Any
    id: str
    curves: dict[str, list[list[float]]] = attrs.Factory(dict)  # of the last logging step


_open: dict[Path, _Run] = {}  # by run folder


def start(event: RunEvent) -> None:
    """Start a run named like the folder, or resume the folder's run."""
    client = library().MlflowClient()
    id_file = event.folder / "mlflow-run-id"
    if id_file.is_file():
        run = _Run(client, id_file.read_text("utf-8").strip())
        client.update_run(run.id, status="RUNNING")
    else:
        name = event.folder.resolve().name
        run = _Run(client, client.create_run(_experiment(client), run_name=name).info.run_id)
        replace_file(id_file, f"{run.id}\n".encode())
        _write_config(run, event.config)
    _open[event.folder] = run


def _experiment(client: Any) -> str:
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or _EXPERIMENT
    found = client.get_experiment_by_name(name)
    made: str = client.create_experiment(name) if found is None else found.experiment_id
    return made


def _write_config(run: _Run, config: Mapping[str, Any]) -> None:
    """Log the config, which MLflow does not allow to change later."""
    param = library().entities.Param
    params = [param(allowed(key), str(value)) for key, value in flatten(config)]
    for first in range(0, len(params), _BATCH):
        run.client.log_batch(run.id, params=params[first : first + _BATCH])


def write(event: RunEvent) -> None:
    """Log scalars and images; keep the curves for the end."""
    if (run := _open.get(event.folder)) is None:
        return
    metric, now = library().entities.Metric, int(time.time() * 1000)
    metrics = [
        metric(allowed(tag(name)), value, now, event.step) for name, value in event.scalars.items()
    ]
    run.client.log_batch(run.id, metrics=metrics)
    for name, image in event.images.items():
        array = image.cpu().numpy()
        run.client.log_image(run.id, array, key=allowed(name), step=event.step, synchronous=True)
    run.curves |= {name: [x.tolist(), y.tolist()] for name, (x, y) in event.curves.items()}


def end(event: RunEvent) -> str | None:
    """Log the last curves and the reason of the end; return the run id for the user."""
    if (run := _open.pop(event.folder, None)) is None:
        return None
    for name, (x, y) in run.curves.items():
        run.client.log_dict(run.id, {"x": x, "y": y}, f"curves/{allowed(name)}.json")
    run.client.set_tag(run.id, "ended", event.reason)
    run.client.set_terminated(run.id, _STATUS.get(event.reason, "FAILED"))
    return f"logs       MLflow run {run.id}"


_STATUS = {"finished": "FINISHED", "interrupted": "KILLED"}


def allowed(name: str) -> str:
    """Replace characters that MLflow does not allow in names by underscores."""
    return re.sub(r"[^\w\-. /]", "_", name, flags=re.ASCII)


def library() -> Any:
    """Import mlflow; raise with instructions if it is missing."""
    try:
        import mlflow
        import mlflow.entities
    except ImportError as error:
        raise ElbowroomError(
            "MLFLOW_TRACKING_URI is set, but mlflow cannot be imported. Install elbowroom[mlflow], "
            f"or unset it ({error})."
        ) from error
    return mlflow

"""Run events as a run of MLflow.

    train/loss, validation/bits_per_dim, ...   metrics by step
    process.name, train.steps, ...             parameters: every value of the config
    samples                                    pictures by step
    curves/elbo_by_level.json                  (x, y) of the last logging step, over lambda

Its client is asked directly: no global state of MLflow's is touched, so a script that uses MLflow
itself keeps its own run. The run's identity is kept in ``RUN/mlflow-run-id``.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from elbowroom import ElbowroomError
from elbowroom.files import replace_file

if TYPE_CHECKING:
    from elbowroom import RunEvent

_EXPERIMENT = "elbowroom"
_AT_ONCE = 100  # parameters a store takes in one request


@attrs.define(eq=False)
class _Run:
    client: Any
    id: str
    curves: dict[str, list[list[float]]] = attrs.Factory(dict)  # of the last logging step


_open: dict[Path, _Run] = {}  # one for each run in this process


def start(event: RunEvent) -> None:
    """Begin the run that this folder has had before, or a new one; named as the folder."""
    client = library().MlflowClient()
    kept = event.folder / "mlflow-run-id"
    if kept.is_file():
        run = _Run(client, kept.read_text("utf-8").strip())
        client.update_run(run.id, status="RUNNING")
    else:
        name = event.folder.resolve().name
        run = _Run(client, client.create_run(_experiment(client), run_name=name).info.run_id)
        replace_file(kept, f"{run.id}\n".encode())
        _write_choices(run, event.config)
    _open[event.folder] = run


def _experiment(client: Any) -> str:
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or _EXPERIMENT
    found = client.get_experiment_by_name(name)
    made: str = client.create_experiment(name) if found is None else found.experiment_id
    return made


def _write_choices(run: _Run, config: Mapping[str, Any]) -> None:
    """Every value of the config; MLflow lets none be changed later."""
    param = library().entities.Param
    choices = [param(allowed(key), str(value)) for key, value in flat(config)]
    for first in range(0, len(choices), _AT_ONCE):
        run.client.log_batch(run.id, params=choices[first : first + _AT_ONCE])


def write(event: RunEvent) -> None:
    """Scalars, curves and pictures of one moment."""
    if (run := _open.get(event.folder)) is None:
        return
    metric, now = library().entities.Metric, int(time.time() * 1000)
    told = [
        metric(allowed(name if "/" in name else f"train/{name}"), value, now, event.step)
        for name, value in event.scalars.items()
    ]
    run.client.log_batch(run.id, metrics=told)
    for name, picture in event.images.items():
        shown = picture.cpu().numpy()
        run.client.log_image(run.id, shown, key=allowed(name), step=event.step, synchronous=True)
    run.curves |= {name: [x.tolist(), y.tolist()] for name, (x, y) in event.curves.items()}


def end(event: RunEvent) -> str | None:
    """The last curves, and how the run ended; where it can be looked at."""
    if (run := _open.pop(event.folder, None)) is None:
        return None
    for name, (x, y) in run.curves.items():
        run.client.log_dict(run.id, {"x": x, "y": y}, f"curves/{allowed(name)}.json")
    run.client.set_tag(run.id, "ended", event.reason)
    run.client.set_terminated(run.id, _STATUS.get(event.reason, "FAILED"))
    return f"logs       MLflow run {run.id}"


_STATUS = {"finished": "FINISHED", "interrupted": "KILLED"}


def allowed(name: str) -> str:
    """A name that MLflow takes: other signs become underscores."""
    return re.sub(r"[^\w\-. /]", "_", name, flags=re.ASCII)


def flat(config: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """``("train.steps", 1000)`` and so on."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def library() -> Any:
    """The package, or a sentence on how to get it."""
    try:
        import mlflow
        import mlflow.entities
    except ImportError as error:
        raise ElbowroomError(
            "MLFLOW_TRACKING_URI is set, and mlflow cannot be imported: install elbowroom[mlflow], "
            f"or unset it ({error})"
        ) from error
    return mlflow

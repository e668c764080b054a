"""Logs run events to Weights & Biases.

    train/loss, train/bits_per_dim, ...   scalars of logging steps
    validation/bits_per_dim, ...          scalars of evaluations
    level/elbo_by_level                   a histogram over lambda
    samples                               images

The x-axis is the training step, logged as a metric: a resumed run may log some steps again, and
W&B's own counter cannot decrease. The run id is stored in ``RUN/wandb/run-id``, so that a resumed
run continues the same W&B run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from elbowroom import ElbowroomError
from elbowroom.files import replace_file
from elbowroom.plugins.training.observers import tag

if TYPE_CHECKING:
    from elbowroom import RunEvent
    from torch import Tensor

_STEP = "step"

_open: dict[Path, Any] = {}  # by run folder


def start(event: RunEvent) -> None:
    """Start a run named like the folder, or resume the folder's run."""
    wandb = library()
    id_file = event.folder / "wandb" / "run-id"
    id_file.parent.mkdir(exist_ok=True)
    known = id_file.read_text("utf-8").strip() if id_file.is_file() else None
    run = wandb.init(
        id=known,
        name=event.folder.resolve().name,
        dir=str(event.folder),
        config=dict(event.config),
        allow_val_change=True,
        resume="allow" if known else None,
        reinit="create_new",
        settings=wandb.Settings(console="off"),  # do not capture the terminal
    )
    replace_file(id_file, f"{run.id}\n".encode())
    run.define_metric(_STEP, hidden=True)
    run.define_metric("*", step_metric=_STEP)
    _open[event.folder] = run


def write(event: RunEvent) -> None:
    """Log scalars, curves and images."""
    if (run := _open.get(event.folder)) is None:
        return
    wandb = library()
    values: dict[str, Any] = {tag(name): value for name, value in event.scalars.items()}
    for name, (x, y) in event.curves.items():
        values[f"level/{name}"] = wandb.Histogram(np_histogram=histogram(x, y))
    for name, image in event.images.items():
        values[name] = wandb.Image(image.cpu().numpy())
    run.log({_STEP: event.step, **values})


def end(event: RunEvent) -> str | None:
    """Write the last scalars and the reason of the end; return the address for the user."""
    if (run := _open.pop(event.folder, None)) is None:
        return None
    run.summary.update({**event.scalars, "ended": event.reason})
    where = run.url or f"wandb sync {Path(run.dir).parent}"
    run.finish(exit_code=1 if event.reason.startswith("failed") else 0)
    return f"logs       {where}"


def histogram(x: Tensor, y: Tensor) -> tuple[list[float], list[float]]:
    """Heights [n] and edges [n + 1] of bins centred at ``x``."""
    width = float(x[1] - x[0]) if len(x) > 1 else 1.0
    centres = x.double().tolist()
    edges = [centres[0] - width / 2, *(at + width / 2 for at in centres)]
    return y.double().nan_to_num(posinf=0.0).clamp(min=0).tolist(), edges


def library() -> Any:
    """Import wandb; raise with instructions if it is missing."""
    try:
        import wandb
    except ImportError as error:
        raise ElbowroomError(
            "WANDB_PROJECT is set, but wandb cannot be imported. Install elbowroom[wandb], or "
            f"unset it ({error})."
        ) from error
    return wandb

"""Run events as a run of Weights & Biases.

    train/loss, train/bits_per_dim, ...   scalars of logging steps
    validation/bits_per_dim, ...          scalars of evaluations
    level/elbo_by_level                   a histogram over lambda, its heights the curve's
    samples                               pictures

Everything is drawn over the training step, which is logged beside it: a run that was killed logs
some steps again when it goes on, and its own counter may not go back. The run's identity is kept in
``RUN/wandb/run-id``, so that it goes on as the same one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from elbowroom import ElbowroomError
from elbowroom.files import replace_file

if TYPE_CHECKING:
    from elbowroom import RunEvent
    from torch import Tensor

_STEP = "step"

_open: dict[Path, Any] = {}  # one for each run in this process


def start(event: RunEvent) -> None:
    """Begin the run that this folder has had before, or a new one; named as the folder."""
    wandb = library()
    kept = event.folder / "wandb" / "run-id"
    kept.parent.mkdir(exist_ok=True)
    known = kept.read_text("utf-8").strip() if kept.is_file() else None
    run = wandb.init(
        id=known,
        name=event.folder.resolve().name,
        dir=str(event.folder),
        config=dict(event.config),
        allow_val_change=True,
        resume="allow" if known else None,
        reinit="create_new",
        settings=wandb.Settings(console="off"),  # what is printed is the console's
    )
    replace_file(kept, f"{run.id}\n".encode())
    run.define_metric(_STEP, hidden=True)
    run.define_metric("*", step_metric=_STEP)
    _open[event.folder] = run


def write(event: RunEvent) -> None:
    """Scalars, curves and pictures of one moment."""
    if (run := _open.get(event.folder)) is None:
        return
    wandb = library()
    told: dict[str, Any] = {
        name if "/" in name else f"train/{name}": value for name, value in event.scalars.items()
    }
    for name, (x, y) in event.curves.items():
        told[f"level/{name}"] = wandb.Histogram(np_histogram=histogram(x, y))
    for name, picture in event.images.items():
        told[name] = wandb.Image(picture.cpu().numpy())
    run.log({_STEP: event.step, **told})


def end(event: RunEvent) -> str | None:
    """The measurements a run ended with, and how it ended; where it can be looked at."""
    if (run := _open.pop(event.folder, None)) is None:
        return None
    run.summary.update({**event.scalars, "ended": event.reason})
    where = run.url or f"wandb sync {Path(run.dir).parent}"
    run.finish(exit_code=1 if event.reason.startswith("failed") else 0)
    return f"logs       {where}"


def histogram(x: Tensor, y: Tensor) -> tuple[list[float], list[float]]:
    """Heights [n] and edges [n + 1] of bins around ``x``."""
    width = float(x[1] - x[0]) if len(x) > 1 else 1.0
    centres = x.double().tolist()
    edges = [centres[0] - width / 2, *(at + width / 2 for at in centres)]
    return y.double().nan_to_num(posinf=0.0).clamp(min=0).tolist(), edges


def library() -> Any:
    """The package, or a sentence on how to get it."""
    try:
        import wandb
    except ImportError as error:
        raise ElbowroomError(
            "WANDB_PROJECT is set, and wandb cannot be imported: install elbowroom[wandb], or "
            f"unset it ({error})"
        ) from error
    return wandb

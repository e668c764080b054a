"""Run events as TensorBoard events.

    train/loss, train/bits_per_dim, ...     scalars of logging steps
    validation/bits_per_dim, ...            scalars of evaluations
    level/elbo_by_level                     a histogram over lambda: the height of bin b is the
                                            ELBO's density there, in bits per dimension
    level_curve/elbo_by_level               the same as a picture, easier to compare over time
    samples                                 pictures
    hparams                                 every value of the config, with the final measurements

A resumed run writes a new file that begins at its step and makes TensorBoard drop what the first
sitting wrote beyond it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

if TYPE_CHECKING:
    from elbowroom import RunEvent

_open: dict[Path, SummaryWriter] = {}  # one for each run in this process


def start(event: RunEvent) -> None:
    """Begin a file, and say what the run is."""
    folder = event.folder / "tensorboard"
    purge = event.step + 1 if event.step else None  # steps logged twice are shown once
    writer = SummaryWriter(str(folder), purge_step=purge)
    _open[event.folder] = writer
    lines = (f"{key}: {value}".splitlines() for key, value in flat(event.config))
    # every line indented: TensorBoard reads Markdown, and a value may hold more than one line
    text = "\n".join(f"    {line}" for several in lines for line in several)
    writer.add_text("config", text, event.step)


def write(event: RunEvent) -> None:
    """Scalars, curves and pictures of one moment."""
    writer = _open.get(event.folder)
    if writer is None:
        return
    for name, value in event.scalars.items():
        tag = name if "/" in name else f"train/{name}"
        writer.add_scalar(tag, value, event.step)
    for name, (x, y) in event.curves.items():
        _add_histogram(writer, f"level/{name}", x, y, event.step)
        writer.add_image(f"level_curve/{name}", curve(y), event.step)
    for name, picture in event.images.items():
        writer.add_image(name, picture, event.step, dataformats="HWC")
    writer.flush()


def end(event: RunEvent) -> None:
    """The run's choices beside its measurements, and the end of the file."""
    writer = _open.pop(event.folder, None)
    if writer is None:
        return
    measurements = {f"hparam/{name}": value for name, value in event.scalars.items()}
    if measurements:
        _add_choices(writer, dict(flat(event.config)), measurements, event.step)
    writer.close()


def flat(config: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """``("train.steps", 1000)`` and so on: only what TensorBoard can show as it is."""
    for key, value in config.items():
        name = f"{path}{key}"
        if isinstance(value, Mapping):
            yield from flat(value, f"{name}.")
        else:
            yield name, value if isinstance(value, bool | int | float | str) else str(value)


def _add_choices(
    writer: SummaryWriter, choices: dict[str, Any], measurements: dict[str, float], step: int
) -> None:
    """The hparams of this run in its own file (``add_hparams`` would open a second one)."""
    from torch.utils.tensorboard.summary import hparams

    file: Any = writer.file_writer  # typed as if it were never there
    for summary in hparams(choices, measurements):
        file.add_summary(summary)
    for name, value in measurements.items():
        writer.add_scalar(name, value, step)


def _add_histogram(writer: SummaryWriter, tag: str, x: Tensor, y: Tensor, step: int) -> None:
    """Bins around ``x`` with the heights ``y``, as TensorBoard keeps histograms."""
    width = float(x[1] - x[0]) if len(x) > 1 else 1.0
    heights = y.clamp(min=0).double()
    writer.add_histogram_raw(
        tag,
        min=float(x[0]) - width / 2,
        max=float(x[-1]) + width / 2,
        num=float(heights.sum()),
        sum=float((heights * x).sum()),
        sum_squares=float((heights * x * x).sum()),
        bucket_limits=(x + width / 2).tolist(),
        bucket_counts=heights.tolist(),
        global_step=step,
    )


def curve(y: Tensor, height: int = 96, column: int = 8) -> Tensor:
    """Bars of the heights ``y`` from left to right, uint8 [3, H, W]; the highest fills it."""
    y = torch.nan_to_num(y.double(), posinf=0.0).clamp(min=0)
    filled = (y / y.max().clamp(min=1e-12) * height).round().long()  # [n]
    rows = torch.arange(height, 0, -1)[:, None]  # from the top down
    bars = (rows <= filled).repeat_interleave(column, dim=1)  # [H, W]
    ink, paper = torch.tensor([31, 119, 180]), torch.tensor([255, 255, 255])
    return torch.where(bars[None], ink[:, None, None], paper[:, None, None]).to(torch.uint8)

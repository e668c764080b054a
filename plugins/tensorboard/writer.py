"""Writes run events as TensorBoard events.

    train/loss, train/bits_per_dim, ...     scalars of logging steps
    validation/bits_per_dim, ...            scalars of evaluations
    level/elbo_by_level                     a histogram over lambda: the height of a bin is the
                                            ELBO's density there, in bits per dimension
    level_curve/elbo_by_level               the same as an image with axes
    samples                                 images or texts
    hparams                                 the config and the last scalars

Files are in ``RUN/tensorboard/NAME``, where NAME is the name of the run folder, which TensorBoard
shows. A resumed run writes a new file from its step on; TensorBoard drops earlier values of these
steps.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from elbowroom.plugins.sampling.texts import readable
from elbowroom.plugins.training.observers import flatten, tag
from torch import Tensor

if TYPE_CHECKING:
    from elbowroom import RunEvent
    from torch.utils.tensorboard import SummaryWriter

_open: dict[Path, SummaryWriter] = {}  # by run folder


def start(event: RunEvent) -> None:
    """Open an event file and write the config; without TensorBoard, write nothing."""
    if find_spec("tensorboard") is None:
        return
    from torch.utils.tensorboard import SummaryWriter

    folder = log_folder(event.folder)
    purge = event.step + 1 if event.step else None  # steps logged again are shown once
    writer = SummaryWriter(str(folder), purge_step=purge)
    _open[event.folder] = writer
    text = "\n".join(f"{key}: {value}" for key, value in flatten(event.config))
    writer.add_text("config", _as_code(text), event.step)


def write(event: RunEvent) -> None:
    """Write scalars, curves, images and texts."""
    writer = _open.get(event.folder)
    if writer is None:
        return
    for name, value in event.scalars.items():
        writer.add_scalar(tag(name), value, event.step)
    for name, (x, y) in event.curves.items():
        _add_histogram(writer, f"level/{name}", x, y, event.step)
        writer.add_image(f"level_curve/{name}", curve(x, y, *_axes(name)), event.step)
    for name, image in event.images.items():
        writer.add_image(name, image, event.step, dataformats="HWC")
    for name, texts in event.texts.items():
        writer.add_text(name, _as_code("\n\n".join(map(readable, texts))), event.step)
    writer.flush()


def end(event: RunEvent) -> bool:
    """Write the config with the measurements and close the file; False if none was open."""
    writer = _open.pop(event.folder, None)
    if writer is None:
        return False
    if event.scalars:
        choices = {key: _plain(value) for key, value in flatten(event.config)}
        _add_hparams(writer, choices, dict(event.scalars))
    writer.close()
    return True


def log_folder(run: Path) -> Path:
    """Return the folder of a run's event files."""
    return run / "tensorboard" / run.resolve().name


def _as_code(text: str) -> str:
    """Indent every line: a code block in the Markdown that TensorBoard renders."""
    return "\n".join(f"    {line}" for line in text.splitlines())


def _plain(value: Any) -> Any:
    """A value of the config that TensorBoard can show."""
    return value if isinstance(value, bool | int | float | str) else str(value)


def _add_hparams(writer: SummaryWriter, choices: dict[str, Any], scalars: dict[str, float]) -> None:
    """Write hparams into the run's file (``add_hparams`` would open a second one).

    They refer to the scalars of the run instead of copies.
    """
    from torch.utils.tensorboard.summary import hparams

    file: Any = writer.file_writer  # typed as None
    for summary in hparams(choices, {tag(name): value for name, value in scalars.items()}):
        file.add_summary(summary)


def _add_histogram(writer: SummaryWriter, tag: str, x: Tensor, y: Tensor, step: int) -> None:
    """Write a histogram with bins centred at ``x`` and heights ``y``."""
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


def _axes(name: str) -> tuple[str, str]:
    """Axis labels of a curve over levels, or over time."""
    if name.endswith("_by_level"):
        return "log-SNR", f"{name.removesuffix('_by_level')}, bits/dim per unit of log-SNR"
    return "time t, from data to noise", name.replace("_", " ")


WIDE, HIGH = 420, 240
LEFT, RIGHT, TOP, BOTTOM = 60, 12, 24, 42  # margins


def curve(x: Tensor, y: Tensor, x_name: str, y_name: str) -> Tensor:
    """Render a bar chart of heights ``y`` at ``x``, uint8 [3, H, W].

    Negative and non-finite heights have no bar.
    """
    import numpy as np
    from PIL import Image, ImageDraw

    y = torch.nan_to_num(y.double(), posinf=0.0).clamp(min=0)
    top, floor, end = float(y.max()), HIGH - BOTTOM, WIDE - RIGHT
    width = float(x[1] - x[0]) if len(x) > 1 else 1.0
    low, high = float(x[0]) - width / 2, float(x[-1]) + width / 2
    image = Image.new("RGB", (WIDE, HIGH), "white")
    draw = ImageDraw.Draw(image)
    places = torch.linspace(LEFT, end, len(y) + 1).round().int().tolist()
    for left, right, value in zip(places, places[1:], y.tolist(), strict=False):
        rise = round(value / top * (floor - TOP)) if top else 0
        if rise:
            draw.rectangle((left, floor - rise, right - 1, floor - 1), fill=(31, 119, 180))
    draw.line((LEFT, TOP, LEFT, floor, end, floor), fill=_INK)
    for share in (0.0, 0.5, 1.0):
        at, up = LEFT + share * (end - LEFT), floor - share * (floor - TOP)
        draw.line((at, floor, at, floor + 4), fill=_INK)
        draw.text((at, floor + 6), f"{low + share * (high - low):.3g}", _INK, anchor="ma")
        draw.line((LEFT - 4, up, LEFT, up), fill=_INK)
        draw.text((LEFT - 6, up), f"{share * top:.3g}", _INK, anchor="rm")
    draw.text(((LEFT + end) / 2, HIGH - 4), x_name, _INK, anchor="md")
    draw.text((4, 4), y_name, _INK, anchor="la")
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


_INK = (60, 60, 60)

"""Run events as TensorBoard events.

    train/loss, train/bits_per_dim, ...     scalars of logging steps
    validation/bits_per_dim, ...            scalars of evaluations
    level/elbo_by_level                     a histogram over lambda: the height of bin b is the
                                            ELBO's density there, in bits per dimension
    level_curve/elbo_by_level               the same as a picture with axes, easier to compare
    samples                                 pictures, or texts
    hparams                                 every value of the config, beside the last scalars

Files are in ``RUN/tensorboard/NAME``, NAME the run's own: it is what TensorBoard calls a run. A
resumed run writes a new file that begins at its step and makes TensorBoard drop what the first
sitting wrote beyond it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from elbowroom.plugins.sampling.texts import readable
from torch import Tensor

if TYPE_CHECKING:
    from elbowroom import RunEvent
    from torch.utils.tensorboard import SummaryWriter

_open: dict[Path, SummaryWriter] = {}  # one for each run in this process


def start(event: RunEvent) -> None:
    """Open an event file and write the config; without TensorBoard, write nothing."""
    if find_spec("tensorboard") is None:
        return
    from torch.utils.tensorboard import SummaryWriter

    folder = log_folder(event.folder)
    purge = event.step + 1 if event.step else None  # steps logged twice are shown once
    writer = SummaryWriter(str(folder), purge_step=purge)
    _open[event.folder] = writer
    text = "\n".join(f"{key}: {value}" for key, value in flat(event.config))
    writer.add_text("config", _as_written(text), event.step)


def write(event: RunEvent) -> None:
    """Scalars, curves and pictures of one moment."""
    writer = _open.get(event.folder)
    if writer is None:
        return
    for name, value in event.scalars.items():
        writer.add_scalar(_tag(name), value, event.step)
    for name, (x, y) in event.curves.items():
        _add_histogram(writer, f"level/{name}", x, y, event.step)
        writer.add_image(f"level_curve/{name}", curve(x, y, *_axes(name)), event.step)
    for name, picture in event.images.items():
        writer.add_image(name, picture, event.step, dataformats="HWC")
    for name, texts in event.texts.items():
        writer.add_text(name, _as_written("\n\n".join(map(readable, texts))), event.step)
    writer.flush()


def end(event: RunEvent) -> bool:
    """Write the config with the measurements and close the file; False if none was open."""
    writer = _open.pop(event.folder, None)
    if writer is None:
        return False
    if event.scalars:
        _add_choices(writer, dict(flat(event.config)), dict(event.scalars))
    writer.close()
    return True


def log_folder(run: Path) -> Path:
    """The folder of a run's event files, named after the run."""
    return run / "tensorboard" / run.resolve().name


def _tag(name: str) -> str:
    return name if "/" in name else f"train/{name}"


def _as_written(text: str) -> str:
    """Every line indented: TensorBoard reads Markdown, and shows such lines as they are."""
    return "\n".join(f"    {line}" for line in text.splitlines())


def flat(config: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """``("train.steps", 1000)`` and so on: only what TensorBoard can show as it is."""
    for key, value in config.items():
        name = f"{path}{key}"
        if isinstance(value, Mapping):
            yield from flat(value, f"{name}.")
        else:
            yield name, value if isinstance(value, bool | int | float | str) else str(value)


def _add_choices(writer: SummaryWriter, choices: dict[str, Any], scalars: dict[str, float]) -> None:
    """The hparams of this run in its own file (``add_hparams`` would open a second one).

    They point at the curves that are there: copies would stand before them, by the alphabet.
    """
    from torch.utils.tensorboard.summary import hparams

    file: Any = writer.file_writer  # typed as if it were never there
    for summary in hparams(choices, {_tag(name): value for name, value in scalars.items()}):
        file.add_summary(summary)


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


def _axes(name: str) -> tuple[str, str]:
    """What runs along a curve and what is upright: levels, or time for what is not by level."""
    if name.endswith("_by_level"):
        return "log-SNR", f"{name.removesuffix('_by_level')}, bits/dim per unit of log-SNR"
    return "time t, from data to noise", name.replace("_", " ")


WIDE, HIGH = 420, 240
LEFT, RIGHT, TOP, BOTTOM = 60, 12, 24, 42  # margins of the plot within the picture


def curve(x: Tensor, y: Tensor, x_name: str, y_name: str) -> Tensor:
    """Bars of the heights ``y`` around ``x`` between named axes, uint8 [3, H, W].

    The highest fills the plot; what is negative or not finite has no bar.
    """
    import numpy as np
    from PIL import Image, ImageDraw

    y = torch.nan_to_num(y.double(), posinf=0.0).clamp(min=0)
    top, floor, end = float(y.max()), HIGH - BOTTOM, WIDE - RIGHT
    width = float(x[1] - x[0]) if len(x) > 1 else 1.0
    low, high = float(x[0]) - width / 2, float(x[-1]) + width / 2
    picture = Image.new("RGB", (WIDE, HIGH), "white")
    draw = ImageDraw.Draw(picture)
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
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1)


_INK = (60, 60, 60)

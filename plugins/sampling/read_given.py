"""Examples to complete, from a file or from a split of the run's data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from elbowroom import Dataset, DataSpec, ElbowroomError
from elbowroom.contracts import SPLITS
from torch import Tensor

from .given import GivenExamples, encode_text
from .rows import encode_rows

_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP")
_MOST_PIXELS = 1 << 26


def read_given(
    source: str, keep: str, data: DataSpec, dataset: Callable[[], Dataset], most: int, seed: int
) -> tuple[GivenExamples, Tensor | None]:
    """The examples in ``source`` with the mask ``keep``, and their labels if they are known.

    Args:
        source: A split of the data (train, validation, test), or a file: an image, an .npz with
            integers ``x``, a .txt, or a .csv with the columns of the training table.
        keep: A name of :mod:`.given`, or an image whose white pixels are kept.
        data: Form of the model's data.
        dataset: Returns the run's data set; called only where it is needed.
        most: The largest number of examples to read from a split.
        seed: Seed of random masks.
    """
    labels, real = None, True
    if source in SPLITS:
        split = dataset().split(source)
        batch = split.take(torch.arange(min(most, len(split))))
        x, labels = batch.x, batch.y
    else:
        path = Path(source)
        if not path.is_file():
            raise ElbowroomError(f"--given {source}: no such file, and not one of {SPLITS}")
        x, labels = _read_file(path, data)
    if path_is_image(keep):
        given = GivenExamples.of(data, x, _read_mask(Path(keep), data), real=real)
    else:
        given = GivenExamples.of(data, x.clamp(min=0), keep, seed=seed, real=real)
    unknown = x < 0  # missing cells, and positions behind the end of a text
    if bool(unknown.any()):
        given = GivenExamples(given.x, given.keep & ~unknown.view_as(given.keep), real=False)
    return given, labels


def path_is_image(name: str) -> bool:
    """Whether a mask is named by an image file."""
    return Path(name).suffix.lower() in _IMAGES


def _read_file(path: Path, data: DataSpec) -> tuple[Tensor, Tensor | None]:
    suffix = path.suffix.lower()
    if suffix in _IMAGES:
        return _image(path, data), None
    if suffix == ".npz":
        return _array(path), None
    if suffix == ".txt":
        return _text(path, data), None
    if suffix == ".csv":
        rows = encode_rows(path, data)
        return rows.x, rows.labels
    known = ", ".join((*_IMAGES, ".npz", ".txt", ".csv"))
    raise ElbowroomError(f"--given {path}: unknown file type {suffix!r}; use {known}")


def _open(path: Path, mode: str, data: DataSpec, resampling: str) -> Any:
    """[H, W] or [H, W, 3] uint8 of an image file, resized to the model's size."""
    from PIL import Image

    if len(data.shape) != 3 or data.shape[2] not in (1, 3):
        raise ElbowroomError(f"{path}: the model's data are not images")
    try:
        with Image.open(path, formats=_FORMATS) as image:
            if image.size[0] * image.size[1] > _MOST_PIXELS:
                raise ElbowroomError(f"{path}: more than {_MOST_PIXELS:,} pixels")
            small = image.convert(mode).resize(
                (data.shape[1], data.shape[0]), Image.Resampling[resampling]
            )
            return np.array(small)
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise ElbowroomError(f"cannot read the image {path}: {error}") from error


def _image(path: Path, data: DataSpec) -> Tensor:
    pixels = _open(path, "L" if data.shape[-1] == 1 else "RGB", data, "BOX")
    x = torch.from_numpy(pixels).long().view(1, *data.shape)
    return x * data.levels // 256


def _read_mask(path: Path, data: DataSpec) -> Tensor:
    if not path.is_file():
        raise ElbowroomError(f"--keep {path}: no such file")
    white = torch.from_numpy(_open(path, "L", data, "NEAREST")) >= 128
    return white[..., None].expand(data.shape)


def _array(path: Path) -> Tensor:
    try:
        with np.load(path, allow_pickle=False) as file:
            name = next((key for key in ("x", "arr_0") if key in file.files), None)
            if name is None:
                raise ElbowroomError(f"--given {path}: no array x or arr_0 in it")
            return torch.from_numpy(file[name].astype(np.int64, casting="safe"))
    except ElbowroomError:
        raise
    except Exception as error:  # numpy has no common class for damaged files
        raise ElbowroomError(f"cannot read {path}: {error}") from error


def _text(path: Path, data: DataSpec) -> Tensor:
    """[1, N] the first tokens of a text; -1 behind its end."""
    if data.tokens is None:
        raise ElbowroomError(f"--given {path}: the model's data are not text")
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ElbowroomError(f"cannot read {path} as UTF-8 text: {error}") from error
    length = data.shape[0]
    codes = encode_text(text[: 16 * length], data)[:length]
    if not codes:
        raise ElbowroomError(f"--given {path}: the file is empty")
    return torch.tensor([codes + [-1] * (length - len(codes))])

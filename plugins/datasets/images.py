"""Image files of any size as square arrays: the largest centred square, averaged over areas.

Colours are RGB (``channels`` 3) or grey (1). Transparency is dropped, the EXIF orientation is
applied by default, and only the first frame of an animation is read.

The format is detected from the content, not the name. Only pixel formats are opened (an EPS file is
a program), and none with more than :data:`MOST_PIXELS` pixels, however small the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from elbowroom import ElbowroomError
from numpy.typing import NDArray

from .shrink import area_average

_MODES = {1: "L", 3: "RGB"}
ENDINGS = frozenset(
    (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
)

FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
MOST_PIXELS = 1 << 26
"""8192 x 8192, about 200 MB as RGB: a header can claim any number."""


class BrokenImageError(ElbowroomError):
    """A file that cannot be read as an image."""


def image_side(path: Path) -> int:
    """The side of the largest square in an image file; reads its header only."""
    from PIL import Image

    try:
        with Image.open(path, formats=FORMATS) as image:
            return int(min(image.size))
    except _failures() as error:
        raise _broken(path, error) from error


def load_image(
    path: Path, size: int, channels: int, enlarge: bool = False, upright: bool = True
) -> NDArray[np.uint8]:
    """[size, size, channels] of an image file."""
    from PIL import Image

    try:
        with Image.open(path, formats=FORMATS) as image:
            return square(image, size, channels, path, enlarge, upright)
    except _failures() as error:
        raise _broken(path, error) from error


def square(
    image: Any,
    size: int,
    channels: int,
    source: object,
    enlarge: bool = False,
    upright: bool = True,
) -> NDArray[np.uint8]:
    """[size, size, channels] of a PIL image; ``source`` is named in errors."""
    from PIL import ImageOps

    if image.mode.startswith(("I", "F")):
        raise ElbowroomError(
            f"{source} has {image.mode} pixels of more than 8 bits: convert it to 8 bits"
        )
    width, height = image.size
    if width * height > MOST_PIXELS:  # before any of them is decoded
        raise ElbowroomError(
            f"{source} is {width}x{height}, more than {MOST_PIXELS:,} pixels: resize or remove it"
        )
    if upright:
        image = ImageOps.exif_transpose(image)
    width, height = image.size
    side = min(width, height)
    if side < size and not enlarge:
        raise ElbowroomError(
            f"{source} is {width}x{height}, smaller than size={size}: "
            f"set data.size={side} or less, or remove it"
        )
    image = image.convert(_MODES[channels])
    left, top = (width - side) // 2, (height - side) // 2
    image = image.crop((left, top, left + side, top + side))
    pixels = np.array(image, np.uint8).reshape(1, side, side, channels)
    # Pillow's box filter counts whole pixels only, which is inexact where sizes do not divide.
    return area_average(torch.from_numpy(pixels), size)[0].to(torch.uint8).numpy()


def _failures() -> tuple[type[Exception], ...]:
    """What PIL raises on damaged files: mostly OSError, but each format has its own."""
    from PIL import Image

    return (OSError, SyntaxError, ValueError, EOFError, IndexError, Image.DecompressionBombError)


def _broken(path: Path, error: Exception) -> BrokenImageError:
    from PIL import UnidentifiedImageError

    if isinstance(error, UnidentifiedImageError):  # its message is the path
        reason = "unknown format"
    else:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return BrokenImageError(f"cannot read {path} as an image: {reason}")

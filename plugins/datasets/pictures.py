"""Pictures of any size as square images: the largest centred square, averaged over areas.

Colours come as RGB (``channels`` 3) or as grey (1); a transparent background is dropped, a
camera's rotation mark is obeyed unless told otherwise, only the first picture of an animation is
taken.

A file is what its content says, not its name: only formats that are pixels are opened (an EPS file
is a program), and none of more pixels than :data:`MOST_PIXELS`, however small it is on disk.
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
"""8192 x 8192, some 200 MB as RGB: a file of a few kilobytes can claim any number."""


class BrokenPictureError(ElbowroomError):
    """A file that cannot be read as a picture."""


def picture_side(path: Path) -> int:
    """The length of the largest square inside a picture file; only its header is read."""
    from PIL import Image

    try:
        with Image.open(path, formats=FORMATS) as image:
            return int(min(image.size))
    except _failures() as error:
        raise _broken(path, error) from error


def load_picture(
    path: Path, size: int, channels: int, enlarge: bool = False, upright: bool = True
) -> NDArray[np.uint8]:
    """[size, size, channels] of a picture file."""
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
            f"{source} has {image.mode} pixels, more than 8 bits: convert it to 8 bits first"
        )
    width, height = image.size
    if width * height > MOST_PIXELS:  # before any of them is decoded
        raise ElbowroomError(
            f"{source} is {width}x{height}, more than {MOST_PIXELS:,} pixels: make it smaller, or "
            "take it away"
        )
    if upright:
        image = ImageOps.exif_transpose(image)
    width, height = image.size
    side = min(width, height)
    if side < size and not enlarge:
        raise ElbowroomError(
            f"{source} is {width}x{height}, smaller than size={size}: "
            f"set data.size={side} or less, or take it away"
        )
    image = image.convert(_MODES[channels])
    left, top = (width - side) // 2, (height - side) // 2
    image = image.crop((left, top, left + side, top + side))
    pixels = np.array(image, np.uint8).reshape(1, side, side, channels)
    # Pillow's box filter counts whole pixels only, which is not the area where sizes do not divide.
    return area_average(torch.from_numpy(pixels), size)[0].to(torch.uint8).numpy()


def _failures() -> tuple[type[Exception], ...]:
    """What PIL raises on broken files: most of all OSError, but each format has its own."""
    from PIL import Image

    return (OSError, SyntaxError, ValueError, EOFError, IndexError, Image.DecompressionBombError)


def _broken(path: Path, error: Exception) -> BrokenPictureError:
    from PIL import UnidentifiedImageError

    if isinstance(error, UnidentifiedImageError):  # whose words are the path again
        reason = "it has no format that Pillow knows"
    else:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return BrokenPictureError(f"cannot read {path} as a picture: {reason}")

"""Images of samples: a grid as PNG, a trajectory from noise to data as GIF.

Integers 0 .. levels-1 become grey or coloured pixels; other values (masked) get one fixed colour.
Pillow is imported where it is used.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elbowroom import ElbowroomError
from elbowroom.contracts import check_finite
from elbowroom.files import write_atomically

if TYPE_CHECKING:
    from torch import Tensor

_MASKED = (58, 66, 104)  # not a grey
_BORDER = 24  # grey
_CAPTION = 13  # height in pixels
_DURATION, _LAST_DURATION = 80, 2000  # milliseconds per frame
_SMALLEST = 40  # pixels: smaller images are enlarged by an integer factor


def has_picture(shape: tuple[int, ...]) -> bool:
    """Return whether examples of this shape are images: (H, W, 1) or (H, W, 3)."""
    return len(shape) == 3 and shape[-1] in (1, 3)


def pixels(x: Tensor, levels: int) -> Tensor:
    """Convert integers [B, H, W, 1 or 3] to uint8 RGB [B, H, W, 3]."""
    import torch

    if not has_picture(tuple(x.shape[1:])):
        raise ElbowroomError(
            f"data of shape {tuple(x.shape[1:])} is not an image, which is (H, W, 1 or 3)"
        )
    x = check_finite(x.cpu())
    masked = (x < 0) | (x >= levels)
    grey = (x.clamp(0, levels - 1) * (255 / (levels - 1))).round()
    grey = torch.where(masked, 127.0, grey)  # a single channel may be masked
    painted = torch.where(
        masked.all(-1, keepdim=True), torch.tensor(_MASKED, dtype=grey.dtype), grey
    )
    return painted.to(torch.uint8)


def tiled(
    colours: Tensor,
    columns: int | None = None,
    captions: Sequence[str] | None = None,
    least_width: int = 0,
) -> Tensor:
    """Images [B, H, W, 3] in one grid, by default nearly square, uint8.

    Small images are enlarged by an integer factor, also to make the grid at least ``least_width``
    pixels wide. ``captions`` [B] are shown below them, truncated to their width.
    """
    import torch

    count, height, width, _ = colours.shape
    if not count:
        raise ValueError("no images to show")
    columns = columns or math.ceil(math.sqrt(count * height / width))
    rows = -(-count // columns)
    factor = max(1, -(-_SMALLEST // min(height, width)), -(-least_width // (columns * width)))
    large = colours.repeat_interleave(factor, 1).repeat_interleave(factor, 2)
    if captions is not None:
        below = [_caption(words, width * factor) for words in captions]
        large = torch.cat([large, torch.stack(below)], dim=1)
    high, wide, gap = large.shape[1], width * factor, max(1, factor // 2)
    sheet = torch.full(
        (rows * (high + gap) + gap, columns * (wide + gap) + gap, 3), _BORDER, dtype=torch.uint8
    )
    for k, picture in enumerate(large):
        top, left = gap + k // columns * (high + gap), gap + k % columns * (wide + gap)
        sheet[top : top + high, left : left + wide] = picture
    return sheet


def _caption(words: str, width: int) -> Tensor:
    """Render a caption, uint8 [lines, width, 3]."""
    import numpy as np
    import torch
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default()
    strip = Image.new("RGB", (width, _CAPTION), (_BORDER,) * 3)
    draw = ImageDraw.Draw(strip)
    shown = words = " ".join(words.split()) or "-"
    while len(shown) > 2 and draw.textlength(shown, font) > width:
        words = words[:-1]
        shown = words + "…"
    draw.text((0, 0), shown, (200,) * 3, font)
    return torch.from_numpy(np.array(strip))


def save_png(picture: Tensor, path: Path) -> Path:
    """Write uint8 [H, W, 3]."""
    from PIL import Image

    content = io.BytesIO()
    Image.fromarray(picture.numpy()).save(content, format="PNG")
    write_atomically(path, content.getvalue())
    return path


def save_gif(images: Sequence[Tensor], path: Path) -> Path:
    """Write images, uint8 [H, W, 3], as an endless animation that pauses at the last one."""
    from PIL import Image

    frames = [_few_colours(Image.fromarray(image.numpy())) for image in images]
    content = io.BytesIO()
    frames[0].save(
        content,
        format="GIF",
        save_all=True,
        append_images=frames[1:],
        duration=[_DURATION] * (len(frames) - 1) + [_LAST_DURATION],
        loop=0,
    )
    write_atomically(path, content.getvalue())
    return path


def _few_colours(image: Any) -> Any:
    """Quantise to 256 colours, as GIF needs; the octree method is fast and precise for greys."""
    from PIL import Image

    return image.quantize(256, method=Image.Quantize.FASTOCTREE)

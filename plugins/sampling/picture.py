"""Pictures of samples: a grid as PNG, a path from noise to data as GIF.

Integers 0 .. levels-1 become grey or coloured pixels; what is not in that range is hidden and
painted in one colour of its own. Pillow is imported where it is used.
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

_HIDDEN = (58, 66, 104)  # a colour no grey level has
_BETWEEN = 24  # the grey between pictures
_CAPTION = 13  # pixels a line of words is high
_EACH, _REST = 80, 2000  # milliseconds of a frame, and of the last one
_SMALLEST = 40  # pixels: smaller pictures are enlarged by a whole factor


def has_picture(shape: tuple[int, ...]) -> bool:
    """Can examples of this shape be shown? (H, W, 1) and (H, W, 3) can."""
    return len(shape) == 3 and shape[-1] in (1, 3)


def pixels(x: Tensor, levels: int) -> Tensor:
    """Integers [B, H, W, 1 or 3] as colours, uint8 [B, H, W, 3]."""
    import torch

    if not has_picture(tuple(x.shape[1:])):
        raise ElbowroomError(
            f"data of shape {tuple(x.shape[1:])} has no picture: (H, W, 1 or 3) has"
        )
    x = check_finite(x.cpu())
    hidden = (x < 0) | (x >= levels)
    grey = (x.clamp(0, levels - 1) * (255 / (levels - 1))).round()
    grey = torch.where(hidden, 127.0, grey)  # one channel of a pixel may be hidden alone
    painted = torch.where(
        hidden.all(-1, keepdim=True), torch.tensor(_HIDDEN, dtype=grey.dtype), grey
    )
    return painted.to(torch.uint8)


def tiled(
    colours: Tensor,
    columns: int | None = None,
    captions: Sequence[str] | None = None,
    least_width: int = 0,
) -> Tensor:
    """Images [B, H, W, 3] in one grid, by default nearly square, uint8.

    Small images are enlarged by a whole factor, also to make the grid ``least_width`` pixels wide.
    ``captions`` [B] are below them, cut to their width.
    """
    import torch

    count, height, width, _ = colours.shape
    if not count:
        raise ValueError("no pictures to show")
    columns = columns or math.ceil(math.sqrt(count * height / width))
    rows = -(-count // columns)
    factor = max(1, -(-_SMALLEST // min(height, width)), -(-least_width // (columns * width)))
    large = colours.repeat_interleave(factor, 1).repeat_interleave(factor, 2)
    if captions is not None:
        below = [_caption(words, width * factor) for words in captions]
        large = torch.cat([large, torch.stack(below)], dim=1)
    high, wide, gap = large.shape[1], width * factor, max(1, factor // 2)
    sheet = torch.full(
        (rows * (high + gap) + gap, columns * (wide + gap) + gap, 3), _BETWEEN, dtype=torch.uint8
    )
    for k, picture in enumerate(large):
        top, left = gap + k // columns * (high + gap), gap + k % columns * (wide + gap)
        sheet[top : top + high, left : left + wide] = picture
    return sheet


def _caption(words: str, width: int) -> Tensor:
    """Words in light grey on the grey between pictures, uint8 [lines, width, 3]."""
    import numpy as np
    import torch
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default()
    strip = Image.new("RGB", (width, _CAPTION), (_BETWEEN,) * 3)
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


def save_gif(pictures: Sequence[Tensor], path: Path) -> Path:
    """Write pictures, uint8 [H, W, 3], one after another; the last one rests before they repeat."""
    from PIL import Image

    frames = [_few_colours(Image.fromarray(picture.numpy())) for picture in pictures]
    content = io.BytesIO()
    frames[0].save(
        content,
        format="GIF",
        save_all=True,
        append_images=frames[1:],
        duration=[_EACH] * (len(frames) - 1) + [_REST],
        loop=0,
    )
    write_atomically(path, content.getvalue())
    return path


def _few_colours(image: Any) -> Any:
    """A palette of 256 colours, as a GIF has; the octree is fast and keeps greys exact enough."""
    from PIL import Image

    return image.quantize(256, method=Image.Quantize.FASTOCTREE)

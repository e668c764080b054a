"""Completed examples next to what was given: a grid of images, marked text, text as it is written.

Given text is bold in the HTML page; masked positions are dots.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

import torch
from elbowroom import DataSpec
from elbowroom.files import write_atomically
from torch import Tensor

from .given import GivenExamples
from .picture import pixels, save_gif, save_png, tiled
from .texts import readable

_GRID = 600
_ROWS = 16
_MASKED = "·"

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Text being written</title>
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<style>
body {{ font: 16px/1.5 ui-monospace, monospace; max-width: 60em; margin: 2em auto; padding: 0 1em }}
pre {{ white-space: pre-wrap; border-left: 3px solid #888; padding-left: 1em }}
b {{ color: #0a7 }} i {{ color: #aaa; font-style: normal }}
.frame {{ display: none }} .frame.on {{ display: block }}
</style></head><body>
<p><input id="at" type="range" min="0" max="{last}" value="{last}"> <button id="play">Play</button>
<span id="step"></span></p>
{frames}
<script>
const frames = [...document.querySelectorAll(".frame")], at = document.getElementById("at");
let timer = null;
function show(k) {{
  frames.forEach((f, j) => f.classList.toggle("on", j === k));
  at.value = k;
  document.getElementById("step").textContent = `frame ${{k + 1}} of ${{frames.length}}`;
}}
at.oninput = () => show(+at.value);
document.getElementById("play").onclick = () => {{
  clearInterval(timer); let k = 0; show(0);
  timer = setInterval(() => ++k < frames.length ? show(k) : clearInterval(timer), 150);
}};
show({last});
</script></body></html>
"""


def save_completions(x: Tensor, given: GivenExamples, data: DataSpec, folder: Path) -> Path:
    """Write a row per given example: what was given, its completions, and the real example."""
    count = min(len(given.x), _ROWS, len(x))
    each = max(1, len(x) // len(given.x))
    rows = []
    for row in range(count):
        shown = torch.where(given.keep[row], given.x[row], -1)
        done = x[row :: len(given.x)][:each]
        rows += [shown[None], done]
        if given.real:
            rows.append(given.x[row][None])
    images = pixels(torch.cat(rows), data.levels)
    columns = each + 1 + given.real
    return save_png(tiled(images, columns, least_width=_GRID), folder / "completions.png")


def marked_texts(x: Tensor, given: GivenExamples, data: DataSpec, before: str) -> list[str]:
    """Each sample with its given parts in double brackets."""
    found = []
    for number, row in enumerate(x):
        keep = given.keep[number % len(given.keep)]
        pieces = [f"[[{text}]]" if kept else text for kept, text in _runs(row, keep, data)]
        found.append(before + "".join(pieces))
    return found


def _runs(row: Tensor, keep: Tensor | None, data: DataSpec) -> list[tuple[bool, str]]:
    """Consecutive tokens that are all given or all not, as texts; masked tokens are dots."""
    tokens = [*(data.tokens or ()), _MASKED]
    kept = [False] * len(row) if keep is None else keep.tolist()
    runs: list[tuple[bool, str]] = []
    for value, given in zip(row.tolist(), kept, strict=True):
        text = tokens[min(max(value, 0), len(tokens) - 1)]
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        if runs and runs[-1][0] == given:
            runs[-1] = (given, runs[-1][1] + text)
        else:
            runs.append((given, text))
    return runs


def save_text_film(
    frames: Sequence[Tensor], given: GivenExamples | None, data: DataSpec, folder: Path
) -> dict[str, Path]:
    """Write the frames [count, N] of a few samples as a page and as an animation."""
    pages = []
    for frame in frames:
        samples = []
        for number, row in enumerate(frame):
            keep = None if given is None else given.keep[number % len(given.keep)]
            text = "".join(
                f"<b>{_escape(text)}</b>" if kept else _escape(text).replace(_MASKED, "<i>·</i>")
                for kept, text in _runs(row, keep, data)
            )
            samples.append(f"<pre>{text}</pre>")
        pages.append(f'<div class="frame">{"".join(samples)}</div>')
    page = _PAGE.format(last=len(pages) - 1, frames="\n".join(pages))
    path = folder / "writing.html"
    write_atomically(path, page.encode())
    animation = [_drawn(frame[0], data) for frame in frames]
    return {"page": path, "animation": save_gif(animation, folder / "writing.gif")}


def _escape(text: str) -> str:
    return html.escape(readable(text))


def _drawn(row: Tensor, data: DataSpec, columns: int = 48) -> Tensor:
    """A sample as an image of text, uint8 [H, W, 3]."""
    import numpy as np
    from PIL import Image, ImageDraw, ImageFont

    text = readable("".join(text for _, text in _runs(row, None, data))).replace("\n", "↵")
    lines = [text[k : k + columns] for k in range(0, len(text), columns)]
    font = ImageFont.load_default()
    image = Image.new("RGB", (columns * 8 + 16, 18 * len(lines) + 12), "white")
    draw = ImageDraw.Draw(image)
    for k, line in enumerate(lines):
        for j, character in enumerate(line):
            draw.text((8 + 8 * j, 6 + 18 * k), character, "black", font)
    return torch.from_numpy(np.array(image))

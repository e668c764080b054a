"""Samples side by side, and the slider that scrubs through their reverse processes."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .markup import Markup, joined, tag
from .parts import section, swatch


def samples_section(results: Mapping[str, Any], out: Path) -> Markup | None:
    """Grids and reels; nothing where no pictures are."""
    by_name = {point["name"]: point for point in results["points"]}
    grids, reels, wide = [], [], True
    for k, group in enumerate(results["groups"]):
        point = by_name.get(group["shown"] or "")
        if point is None:
            continue
        folder = out / point["folder"] / "evaluation"
        grid, reel = _picture(folder / "samples.png"), _picture(folder / "reverse.png")
        size = point["reverse"]
        wide = wide and size["width"] > 1.5 * size["height"]
        caption = tag("figcaption", swatch(k), group["label"], _classes(size))
        if grid:
            shape = f"aspect-ratio:{int(size['width'])}/{int(size['height'])}"
            words = f"samples of {group['label']}, seed {point['seed']}"
            image = tag("img", src=grid, alt=words, class_="grid", style=shape)
            grids.append(tag("figure", image, caption))
        if reel:
            reels.append(tag("figure", _reel(reel, size, group["label"]), caption))
    if not grids:
        return None
    cards = "cards" if wide else "cards square"
    slider = tag(
        "div",
        tag("button", "Play", id="play", type="button"),
        tag("span", "noise", class_="end"),
        tag(
            "input",
            id="time",
            type="range",
            min=0,
            max=1000,
            value=600,
            aria_label="how far from noise to data",
        ),
        tag("span", "data", class_="end"),
        class_="scrub",
    )
    return joined(
        section(
            "Samples",
            "samples",
            tag("div", grids, class_=cards),
            lead="The first samples of one run of each model, none picked, with every class in "
            "turn where there are classes (those behind the figures have labels as frequent as "
            "the data's).",
        ),
        section(
            "From noise to data",
            "reverse",
            slider,
            tag("div", reels, class_=cards),
            lead="The reverse process of the same samples. Hidden tokens are blue.",
        ),
    )


def _classes(size: Mapping[str, Any]) -> Markup | None:
    """What the pictures were asked to show: a name for each column, or row after row."""
    rows = size.get("classes")
    if not rows:
        return None
    if all(row == rows[0][: len(row)] for row in rows):
        return tag("span", f"columns: {', '.join(rows[0])}")
    return tag("span", "row by row: " + "; ".join(", ".join(row) for row in rows))


def _picture(path: Path) -> str | None:
    try:
        return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()
    except OSError:
        return None


def _reel(source: str, size: Mapping[str, Any], label: str) -> Markup:
    frames = int(size["frames"])
    style = (
        f"aspect-ratio:{int(size['width'])}/{int(size['height'])};"
        f"background-size:{frames * 100}% 100%;background-image:url({source})"
    )
    return tag(
        "div",
        class_="reel",
        role="img",
        aria_label=f"reverse process of {label}",
        style=style,
        data_frames=frames,
    )

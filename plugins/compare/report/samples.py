"""Samples side by side, and the slider that scrubs through their reverse processes."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs


@attrs.frozen
class Card:
    """The picture of a group."""

    colour: int
    label: str
    seed: int
    picture: str  # an address with the picture in it
    width: int
    height: int
    frames: int
    classes: str

    @classmethod
    def of(
        cls, colour: int, label: str, seed: int, picture: str, reverse: Mapping[str, Any]
    ) -> Card:
        """With the sizes that its evaluation wrote down."""
        width, height, frames = (int(reverse[key]) for key in ("width", "height", "frames"))
        words = class_words(reverse.get("classes"))
        return cls(colour, label, seed, picture, width, height, frames, words)


def samples(results: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """The cards of grids and of reels, and how they are laid out."""
    by_name = {point["name"]: point for point in results["points"]}
    grids: list[Card] = []
    filmstrips: list[Card] = []
    wide = True
    for k, group in enumerate(results["groups"]):
        point = by_name.get(group["shown"] or "")
        if point is None:
            continue
        size, folder = point["reverse"], out / point["folder"] / "evaluation"
        wide = wide and size["width"] > 1.5 * size["height"]
        for file, cards in (("samples.png", grids), ("reverse.png", filmstrips)):
            if picture := _picture(folder / file):
                cards.append(Card.of(k, group["label"], point["seed"], picture, size))
    return {"grids": grids, "reels": filmstrips, "layout": "cards" if wide else "cards square"}


def class_words(rows: Any) -> str:
    """What the pictures were asked to show: a name for each column, or row after row."""
    if not rows:
        return ""
    if all(row == rows[0][: len(row)] for row in rows):
        return f"columns: {', '.join(rows[0])}"
    return "row by row: " + "; ".join(", ".join(row) for row in rows)


def _picture(path: Path) -> str | None:
    try:
        return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()
    except OSError:
        return None

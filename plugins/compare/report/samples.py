"""Pictures on the page: samples side by side, their reverse processes, plots of frontiers."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from elbowroom.plugins.sampling.texts import readable


@attrs.frozen
class Card:
    """A picture of samples, or of real examples."""

    colour: int | None  # of the group; None: no model's
    label: str
    alt: str
    picture: str  # an address with the picture in it
    width: int
    height: int
    frames: int
    columns: Sequence[str]  # the class of each column, where all of it is of one
    classes: str  # else what is where

    @classmethod
    def of(
        cls, colour: int | None, label: str, alt: str, picture: str, sizes: Mapping[str, Any]
    ) -> Card:
        """With the sizes that were written down beside it."""
        width, height, frames = (int(sizes.get(key, 1)) for key in ("width", "height", "frames"))
        rows = sizes.get("classes")
        return cls(
            colour, label, alt, picture, width, height, frames, in_columns(rows), in_rows(rows)
        )


def texts(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Samples that are text: those of the first finished run of each model."""
    shown = []
    for k, group in enumerate(results["groups"]):
        points = (p for p in results["points"] if p["name"] in group["points"] and p.get("texts"))
        if point := next(points, None):
            words = [readable(one) for one in point["texts"]]
            shown.append({"colour": k, "label": group["label"], "texts": words})
    return shown


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
                alt = f"samples of {group['label']}, seed {point['seed']}"
                cards.append(Card.of(k, group["label"], alt, picture, size))
    grids = [*real(results, out), *grids] if grids else []
    return {"grids": grids, "reels": filmstrips, "layout": "cards" if wide else "cards square"}


def real(results: Mapping[str, Any], out: Path) -> list[Card]:
    """What samples should look like: examples of each data set, in the samples' order."""
    cards, data = [], results.get("data", ())
    for one in data:
        if "picture" in one and (picture := _picture(out / one["picture"])):
            label = f"real: {one['name']}, {one['split']} split"
            label += f" ({', '.join(one['models'])})" if len(data) > 1 else ""
            cards.append(Card.of(None, label, f"real examples of {one['name']}", picture, one))
    return cards


def frontier_cards(results: Mapping[str, Any], out: Path) -> list[tuple[str, str]]:
    """(what quality is against, the plot's address) of each frontier."""
    return [
        (one["title"], picture)
        for one in results.get("frontiers", ())
        if (picture := _picture(out / f"frontier-{one['cost']}.svg", "svg+xml"))
    ]


def in_columns(rows: Any) -> list[str]:
    """The class of each column; empty where rows differ."""
    same = rows and all(row == rows[0][: len(row)] for row in rows)
    return list(rows[0]) if same else []


def in_rows(rows: Any) -> str:
    """What is shown, row after row; empty where columns say it."""
    if not rows or in_columns(rows):
        return ""
    return "row by row: " + "; ".join(", ".join(row) for row in rows)


def _picture(path: Path, form: str = "png") -> str | None:
    try:
        return f"data:image/{form};base64," + base64.b64encode(path.read_bytes()).decode()
    except OSError:
        return None

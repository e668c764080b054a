"""Images of the page: samples, their reverse processes, real examples, plots of frontiers."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from elbowroom.plugins.evaluation.run import evaluation_folder
from elbowroom.plugins.sampling.texts import readable

from ..results import Results


@attrs.frozen
class Card:
    """An image of samples or of real examples."""

    colour: int | None  # index of the model; None: real examples
    label: str
    alt: str
    picture: str  # data URL
    width: int
    height: int
    frames: int
    columns: Sequence[str]  # the class of each column, where all rows have the same
    classes: str  # else the classes row by row

    @classmethod
    def of(
        cls,
        colour: int | None,
        label: str,
        alt: str,
        picture: str,
        size: tuple[int, int, int],
        rows: Any,
    ) -> Card:
        """A card of an image with (width, height, frames) and its classes by row."""
        return cls(colour, label, alt, picture, *size, in_columns(rows), in_rows(rows))


def texts(results: Results) -> list[dict[str, Any]]:
    """Samples that are text, of the first finished run of each model."""
    shown = []
    for k, model in enumerate(results.models):
        found = (p.evaluated.texts for p in model.points if p.evaluated and p.evaluated.texts)
        if drawn := next(found, None):
            shown.append({"colour": k, "label": model.label, "texts": list(map(readable, drawn))})
    return shown


def samples(results: Results) -> dict[str, Any]:
    """The cards of samples and of reverse processes, and their layout."""
    grids: list[Card] = []
    filmstrips: list[Card] = []
    wide = True
    for k, model in enumerate(results.models):
        point = model.shown
        if point is None or point.evaluated is None or point.evaluated.reverse is None:
            continue
        about, folder = point.evaluated.reverse, evaluation_folder(point.folder)
        size = int(about["width"]), int(about["height"]), int(about["frames"])
        wide = wide and size[0] > 1.5 * size[1]
        for file, cards in (("samples.png", grids), ("reverse.png", filmstrips)):
            if picture := _picture(folder / file):
                alt = f"samples of {model.label}, seed {point.seed}"
                rows = about.get("classes")
                cards.append(Card.of(k, model.label, alt, picture, size, rows))
    grids = [*real(results), *grids] if grids else []
    return {"grids": grids, "reels": filmstrips, "layout": "cards" if wide else "cards square"}


def real(results: Results) -> list[Card]:
    """Examples of each data set, in the order of the samples."""
    cards = []
    for one in results.data:
        if one.picture and (picture := _picture(results.out / one.picture)):
            label = f"real: {one.name}, {one.split} split"
            label += f" ({', '.join(one.models)})" if len(results.data) > 1 else ""
            size = (one.width, one.height, 1)
            alt = f"real examples of {one.name}"
            cards.append(Card.of(None, label, alt, picture, size, one.classes))
    return cards


def frontier_images(results: Results) -> list[tuple[str, str]]:
    """(cost, data URL of the plot) of each frontier."""
    return [
        (one.title, picture)
        for one in results.frontiers
        if (picture := _picture(results.out / f"frontier-{one.cost}.svg", "svg+xml"))
    ]


def in_columns(rows: Any) -> list[str]:
    """The class of each column; empty where rows differ."""
    same = rows and all(row == rows[0][: len(row)] for row in rows)
    return list(rows[0]) if same else []


def in_rows(rows: Any) -> str:
    """The classes row by row; empty where columns have them."""
    if not rows or in_columns(rows):
        return ""
    return "row by row: " + "; ".join(", ".join(row) for row in rows)


def _picture(path: Path, form: str = "png") -> str | None:
    try:
        return f"data:image/{form};base64," + base64.b64encode(path.read_bytes()).decode()
    except OSError:
        return None

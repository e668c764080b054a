"""The data of a comparison: what configs call it, and a few of its own pictures.

The pictures are arranged as the samples are in the report, every class in turn: a place shows the
same class in both. Of each class the first are taken, in an order that is drawn at random.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from elbowroom import ComponentSpec, Config, Dataset, ElbowroomError, Split
from elbowroom.config import options_of, to_plain
from elbowroom.plugins.sampling.filmstrip import Filmstrip, save_small_png
from elbowroom.plugins.sampling.picture import has_picture, pixels
from elbowroom.randomness import permute
from torch import Tensor

from .comparison import Cell

_MOST = 4096  # examples that are looked at to find some of every class
_AT_ONCE = 256


def show_data(cells: Sequence[Cell], out: Path) -> list[dict[str, Any]]:
    """Each data set once: its name, the options that were chosen, who has it, and its picture."""
    same: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.point is not None and cell.point.config.data is not None:
            key = json.dumps(to_plain(cell.point.config.data), sort_keys=True, default=str)
            same.setdefault(key, []).append(cell)
    found = []
    for k, having in enumerate(same.values()):
        assert having[0].point is not None and having[0].point.config.data is not None
        config, data = having[0].point.config, having[0].point.config.data
        about: dict[str, Any] = {"name": data.name, "options": chosen(data)}
        about["models"] = list(dict.fromkeys(cell.label for cell in having))
        with suppress(ElbowroomError):  # files that are elsewhere: the points have seen them
            about |= _draw(config, data.build(), out, f"real-{k}.png" if k else "real.png")
        found.append(about)
    return found


def chosen(spec: ComponentSpec) -> dict[str, str]:
    """The options whose values are not the usual ones, as the config has them."""
    given = spec.given or {}
    usual = {name: _plain(option.default()) for name, option in options_of(spec.cls).items()}
    return {
        name: str(value)
        for name, value in given.items()
        if name in usual and value is not None and value != usual[name]
    }


def _plain(value: Any) -> Any:
    with suppress(ElbowroomError):
        return to_plain(value)
    return value


def _draw(config: Config, data: Dataset, out: Path, name: str) -> dict[str, Any]:
    """Write the picture; its file, sizes and classes, nothing where data are no pictures."""
    spec = data.spec
    if not has_picture(spec.shape):
        return {}
    film = Filmstrip(config.process.build().bind(spec))
    split = next((part for part in ("test", "train") if len(data.split(part))), "test")
    labels = [k % (spec.classes or 1) for k in range(film.count)]
    x = examples(data.split(split), labels, spec.shape)
    picture = film.side_by_side(pixels(x, spec.levels))
    out.mkdir(parents=True, exist_ok=True)
    save_small_png(picture, out / name)
    height, width, _ = picture.shape
    sizes = {"width": width, "height": height, "classes": film.class_names()}
    return {"picture": name, "split": split, **sizes}


def examples(split: Split, labels: Sequence[int], shape: tuple[int, ...]) -> Tensor:
    """[len(labels), *shape] an example of each label, none twice; -1 where too few were found.

    Where examples have no labels, all have label 0.
    """
    places: dict[int, list[int]] = {}
    for place, label in enumerate(labels):
        places.setdefault(label, []).append(place)
    found = torch.full((len(labels), *shape), -1, dtype=torch.int64)
    size = len(split)
    for slots in torch.arange(min(size, _MOST)).split(_AT_ONCE) if size else ():
        rows = permute(slots, size, seed=0)
        batch = split.take(rows)
        known = [0] * len(batch) if batch.y is None else batch.y.tolist()
        for x, label in zip(batch.x, known, strict=True):
            if waiting := places.get(label):
                found[waiting.pop(0)] = x.long()
        if not any(places.values()):
            break
    return found


def data_words(data: Sequence[Mapping[str, Any]]) -> list[str]:
    """``data: image-folder (path: birds, size: 32)``, one for each."""
    words = []
    for one in data:
        options = ", ".join(f"{key}: {value}" for key, value in one["options"].items())
        words.append(f"data: {one['name']}{f' ({options})' if options else ''}")
    return words

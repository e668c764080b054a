"""The data sets of a comparison, with images of real examples.

Examples are arranged as the samples in the report, so that a position has the same class in both.
They are drawn at random.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import torch
from elbowroom import ComponentSpec, Config, Dataset, ElbowroomError, Split
from elbowroom.config import options_of, to_plain
from elbowroom.plugins.sampling.filmstrip import Filmstrip, save_small_png
from elbowroom.plugins.sampling.picture import has_picture, pixels
from elbowroom.randomness import permute
from torch import Tensor

from .point import Point

_MOST = 4096  # examples that are read to find some of every class
_AT_ONCE = 256


@attrs.frozen(kw_only=True)
class DataShown:
    """A data set of a comparison, with an image of real examples if it has images."""

    name: str
    options: Mapping[str, str]  # that differ from their defaults
    models: Sequence[str]  # labels
    picture: str | None = None  # a file in the comparison's folder
    split: str = ""
    width: int = 0
    height: int = 0
    classes: Sequence[Sequence[str]] | None = None  # by row of the image

    def __str__(self) -> str:
        options = ", ".join(f"{key}: {value}" for key, value in self.options.items())
        return f"data: {self.name}{f' ({options})' if options else ''}"


def show_data(points: Sequence[Point], out: Path) -> list[DataShown]:
    """Each data set of the points, once; images of real examples are written to ``out``."""
    same: dict[str, tuple[Config, ComponentSpec, list[str]]] = {}
    for point in points:
        if point.config is not None and point.config.data is not None:
            data = point.config.data
            key = json.dumps(to_plain(data), sort_keys=True, default=str)
            same.setdefault(key, (point.config, data, []))[2].append(point.label)
    found = []
    for k, (config, data, labels) in enumerate(same.values()):
        models = list(dict.fromkeys(labels))
        about = DataShown(name=data.name, options=changed_options(data), models=models)
        with suppress(ElbowroomError):  # the files may be on the points' machine alone
            about = _draw(about, config, data.build(), out, f"real-{k}.png" if k else "real.png")
        found.append(about)
    return found


def changed_options(spec: ComponentSpec) -> dict[str, str]:
    """The options of a config that differ from their defaults."""
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


def _draw(about: DataShown, config: Config, data: Dataset, out: Path, name: str) -> DataShown:
    """Write the image of real examples, for data that are images."""
    spec = data.spec
    if not has_picture(spec.shape):
        return about
    film = Filmstrip(config.process.build().bind(spec))
    split = next((part for part in ("test", "train") if len(data.split(part))), "test")
    labels = [k % (spec.classes or 1) for k in range(film.count)]
    picture = film.side_by_side(
        pixels(examples(data.split(split), labels, spec.shape), spec.levels)
    )
    out.mkdir(parents=True, exist_ok=True)
    save_small_png(picture, out / name)
    height, width, _ = picture.shape
    return attrs.evolve(
        about, picture=name, split=split, width=width, height=height, classes=film.class_names()
    )


def examples(split: Split, labels: Sequence[int], shape: tuple[int, ...]) -> Tensor:
    """[len(labels), *shape] distinct examples with these labels; -1 where too few were found.

    Examples without labels count as label 0.
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

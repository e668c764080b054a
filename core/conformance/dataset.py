"""Laws of a data set."""

from __future__ import annotations

import torch

from ..dataset import SPLITS, Dataset
from .law import ensure, run


def check_dataset(data: Dataset) -> None:
    """Every law of a data set."""
    run(data, [_spec, _integers, _fixed, _order, _labels], data)


def _spec(data: Dataset) -> None:
    """The spec is fixed, with a shape of positive sides and at least two levels."""
    ensure(data.spec == data.spec, "it changes from one look to the next.")
    ensure(min(data.spec.shape) >= 1, f"its shape is {data.spec.shape}.")
    ensure(data.spec.levels >= 2, f"it has {data.spec.levels} levels.")


def _integers(data: Dataset) -> None:
    """Examples are integers 0 .. levels-1 of the shape the spec says."""
    for name in SPLITS:
        split = data.split(name)
        ensure(len(split) > 0, f"the {name} split is empty.")
        x = split.take(torch.arange(min(64, len(split)))).x
        ensure(tuple(x.shape[1:]) == data.spec.shape, f"{name} examples are {tuple(x.shape[1:])}.")
        ensure(not x.is_floating_point(), f"{name} examples are {x.dtype}.")
        low, high = int(x.min()), int(x.max())
        ensure(
            low >= 0 and high < data.spec.levels,
            f"{name} has values {low} to {high} for {data.spec.levels} levels.",
        )


def _fixed(data: Dataset) -> None:
    """A split is always the same examples."""
    for name in SPLITS:
        index = torch.arange(min(16, len(data.split(name))))
        first, again = data.split(name).take(index).x, data.split(name).take(index).x
        ensure(torch.equal(first, again), f"the {name} split changed.")


def _order(data: Dataset) -> None:
    """take gives the examples asked for, in the order asked for."""
    split = data.split("train")
    forward = split.take(torch.arange(min(8, len(split)))).x
    backward = split.take(torch.arange(min(8, len(split))).flip(0)).x
    ensure(torch.equal(backward, forward.flip(0)), "asking backwards gave other examples.")


def _labels(data: Dataset) -> None:
    """Labels are 0 .. classes-1, and there are none where the spec has no classes."""
    for name in SPLITS:
        split = data.split(name)
        y = split.take(torch.arange(min(64, len(split)))).y
        if data.spec.classes is None:
            ensure(y is None, f"the {name} split has labels although the spec has no classes.")
            continue
        ensure(y is not None, f"the {name} split has no labels.")
        assert y is not None
        low, high = int(y.min()), int(y.max())
        ensure(
            low >= 0 and high < data.spec.classes,
            f"{name} has labels {low} to {high} for {data.spec.classes} classes.",
        )

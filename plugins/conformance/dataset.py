"""Laws of a data set."""

from __future__ import annotations

import itertools
from collections import Counter

import torch
from elbowroom import Dataset
from elbowroom.contracts import SPLITS

from .law import ensure, run

_COMPARED = 512  # examples of each split


def check_dataset(data: Dataset) -> None:
    """Check the laws of a data set."""
    run(data, [_spec, _integers, _fixed, _apart, _order, _labels], data)


def _spec(data: Dataset) -> None:
    """The spec is fixed, with a shape of positive sides and at least two levels."""
    ensure(data.spec == data.spec, "it changes between calls.")
    ensure(min(data.spec.shape) >= 1, f"its shape is {data.spec.shape}.")
    ensure(data.spec.levels >= 2, f"it has {data.spec.levels} levels.")


def _integers(data: Dataset) -> None:
    """Examples are integers 0 .. levels-1 of the spec's shape."""
    for name in SPLITS:
        split = data.split(name)
        ensure(len(split) > 0, f"the {name} split is empty.")
        x = split.take(torch.arange(min(64, len(split)))).x
        ensure(tuple(x.shape[1:]) == data.spec.shape, f"{name} examples are {tuple(x.shape[1:])}.")
        ensure(not x.is_floating_point(), f"{name} examples are {x.dtype}.")
        low, high = int(x.min()), int(x.max())
        ensure(
            (x >= 0) & (x < data.spec.counts()),
            f"{name} has values {low} to {high} for {data.spec.levels} levels.",
        )


def _fixed(data: Dataset) -> None:
    """A split is always the same examples."""
    for name in SPLITS:
        index = torch.arange(min(16, len(data.split(name))))
        first, again = data.split(name).take(index).x, data.split(name).take(index).x
        ensure(torch.equal(first, again), f"the {name} split changed.")


def _apart(data: Dataset) -> None:
    """The splits are not the same examples."""
    seen = {name: _first(data, name) for name in SPLITS}
    for one, other in itertools.combinations(SPLITS, 2):
        first, second = seen[one], seen[other]
        same = sum((Counter(first) & Counter(second)).values())
        shared = same / max(1, min(len(first), len(second)))
        message = f"{shared:.0%} of the first examples of {other} are among those of {one}."
        if _all_different(first) and _all_different(second):
            ensure(shared <= 0.5, message)  # many data sets have a few duplicates
        else:  # few states: examples coincide by chance, but not all in order
            ensure(len(first) < 8 or first[: len(second)] != second[: len(first)], message)


def _first(data: Dataset, name: str) -> list[bytes]:
    split = data.split(name)
    x = split.take(torch.arange(min(_COMPARED, len(split)))).x
    return [bytes(row.numpy().tobytes()) for row in x.flatten(1).long().cpu()]


def _all_different(examples: list[bytes]) -> bool:
    return len(set(examples)) == len(examples)


def _order(data: Dataset) -> None:
    """take returns the requested examples, in the requested order."""
    split = data.split("train")
    forward = split.take(torch.arange(min(8, len(split)))).x
    backward = split.take(torch.arange(min(8, len(split))).flip(0)).x
    ensure(torch.equal(backward, forward.flip(0)), "in reverse order they are other examples.")


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

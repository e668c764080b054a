"""Fewer pixels, fewer levels, fewer examples."""

from __future__ import annotations

from fractions import Fraction

import attrs
import numpy as np
import pytest
import torch
from elbowroom.contracts.dataset import DataSpec
from elbowroom.errors import ConfigError, ElbowroomError
from elbowroom.plugins.datasets.digits import Digits
from elbowroom.plugins.datasets.shrink import Requantised, Shrinkable, area_average
from elbowroom.plugins.datasets.splits import ArraySplit
from hypothesis import given, settings, strategies as st
from PIL import Image


@attrs.frozen(kw_only=True, slots=False)
class Made(Shrinkable):
    """200 images whose first pixel is their number."""

    shape: tuple[int, ...] = (6, 6, 1)

    @property
    def full_spec(self):
        return DataSpec(self.shape, levels=256, classes=2)

    def full_split(self, name):
        images = np.random.default_rng(0).integers(0, 256, (200, *self.shape), dtype=np.uint8)
        images[:, 0, 0, 0] = np.arange(200)
        return ArraySplit(images, np.arange(200) % 2)


def exact_area(x: torch.Tensor, size: int) -> list[list[int]]:
    """The definition in rational numbers, pixel by pixel."""
    side = len(x)

    def share(i: int, s: int) -> Fraction:
        low = max(Fraction(i * side, size), Fraction(s))
        high = min(Fraction((i + 1) * side, size), Fraction(s + 1))
        return max(Fraction(0), high - low) * size / side

    weights = [[share(i, s) for s in range(side)] for i in range(size)]
    return [
        [
            int(
                sum(
                    weights[i][s] * weights[j][t] * int(x[s, t])
                    for s in range(side)
                    for t in range(side)
                )
                + Fraction(1, 2)
            )
            for j in range(size)
        ]
        for i in range(size)
    ]


@given(side=st.integers(1, 7), size=st.integers(1, 7), seed=st.integers(0, 99))
@settings(max_examples=40)
def test_area_average_is_exact(side: int, size: int, seed: int):
    """The area average equals the rational mean, rounded half up, for any two sizes."""
    x = torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (1, side, side, 1)))
    assert area_average(x, size)[0, :, :, 0].tolist() == exact_area(x[0, :, :, 0], size)


def test_area_average_of_large_images_is_exact():
    """One pixel in a million is not lost."""
    x = torch.full((1, 1024, 1024, 1), 255 * 2**20)
    x[0, 5, 7, 0] -= 2**20
    assert area_average(x, 1).item() == 255 * 2**20 - 1


@pytest.mark.parametrize("size", [8, 16, 32])
def test_area_average_agrees_with_pillow(size: int):
    """Where sizes divide, Pillow's box filter gives the same image up to its rounding."""
    x = np.random.default_rng(1).integers(0, 256, (32, 32), dtype=np.uint8)
    ours = area_average(torch.from_numpy(x)[None, ..., None], size)[0, ..., 0]
    theirs = np.array(Image.fromarray(x).resize((size, size), Image.Resampling.BOX))
    assert (ours - torch.from_numpy(theirs)).abs().max() <= 1


@given(levels=st.integers(2, 256))
@settings(max_examples=40)
def test_requantising_makes_equal_bins(levels: int):
    """Every new level is used, order is kept, and the bins are as equal as can be."""
    images = np.arange(256, dtype=np.uint8).reshape(256, 1, 1, 1)
    split = Requantised(ArraySplit(images, None), 256, levels)
    x = split.take(torch.arange(256)).x.flatten()
    sizes = x.bincount(minlength=levels)
    assert len(sizes) == levels
    assert (x.diff() >= 0).all()
    assert sizes.max() - sizes.min() <= 1


def test_limits_are_nested_and_mixed():
    """A smaller limit takes a part of a larger one, from all over the data."""
    chosen = {}
    for limit in (10, 50, 150):
        split = Made(limit=limit).split("train")
        assert len(split) == limit
        chosen[limit] = set(split.take(torch.arange(limit)).x[:, 0, 0, 0].tolist())
        assert len(chosen[limit]) == limit
    assert chosen[10] < chosen[50] < chosen[150]
    assert max(chosen[50]) > 150
    assert min(chosen[50]) < 50


def test_limit_beyond_the_data_changes_nothing():
    """A limit larger than a split leaves it as it is."""
    assert len(Made(limit=1000).split("train")) == 200


def test_options_work_together():
    """Spec and examples agree when all three options are used."""
    data = Digits(size=3, levels=4, limit=20)
    assert data.spec == DataSpec((3, 3, 1), levels=4, classes=10)
    for name, size in {"train": 20, "validation": 20, "test": 20}.items():
        batch = data.split(name).take(torch.arange(size))
        assert batch.x.shape == (20, 3, 3, 1)
        assert 0 <= int(batch.x.min()) <= int(batch.x.max()) < 4
    assert int(data.split("train").take(torch.arange(20)).x.max()) == 3


def test_indices_stay_inside_a_limited_split():
    """A limited split does not hand out what lies beyond its limit."""
    with pytest.raises(IndexError):
        Made(limit=10).split("train").take(torch.tensor([10]))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (Digits(size=9), "larger than its 8x8"),
        (Digits(levels=18), "has only 17"),
        (Made(shape=(6, 4, 1), size=3), "square"),
    ],
)
def test_enlarging_is_refused(data: Shrinkable, message: str):
    """Options that would invent pixels or levels are refused by spec and split alike."""
    with pytest.raises(ConfigError, match=message):
        _ = data.spec
    with pytest.raises(ConfigError, match=message):
        data.split("train")


@pytest.mark.parametrize("options", [{"size": 0}, {"levels": 1}, {"limit": 0}, {"limit": -3}])
def test_nonsense_options_are_refused(options: dict):
    """Options out of range are refused when the data set is made."""
    with pytest.raises(ValueError, match="must be"):
        Digits(**options)


def test_unknown_split_is_refused():
    """A wrong split name lists the right ones."""
    with pytest.raises(ElbowroomError, match="train, validation, test"):
        Digits().split("valid")

"""The embedded digits."""

from __future__ import annotations

import hashlib
import time

import pytest
import torch
from elbowroom.plugins.datasets.digits import Digits
from elbowroom.plugins.datasets.splits import ArraySplit

SIZES = {"train": 1295, "validation": 143, "test": 359}
PINS = {"train": "ae91999bcd025c78", "validation": "6b7a766b872809d5", "test": "c613101fdd0a34f9"}


def everything(name: str):
    split = Digits().split(name)
    return split.take(torch.arange(len(split)))


def test_splits_are_pinned():
    """The splits are the same examples on every machine and in every version."""
    for name, size in SIZES.items():
        split = Digits().split(name)
        assert isinstance(split, ArraySplit)
        assert len(split) == size
        digest = hashlib.sha256(split.rows.astype("<i8").tobytes()).hexdigest()[:16]
        assert digest == PINS[name]


def test_splits_cover_the_data_without_overlap():
    """Each of the 1797 images is in exactly one split."""
    rows = torch.cat([torch.from_numpy(Digits().split(name).rows) for name in SIZES])
    assert rows.sort().values.equal(torch.arange(1797))


def test_splits_are_stratified():
    """Each class has its fifth in test, and its tenth of the rest in validation."""
    counts = {name: everything(name).y.bincount(minlength=10) for name in SIZES}
    total = sum(counts.values())
    assert (counts["test"] - 0.2 * total).abs().max() <= 0.5
    assert (counts["validation"] - 0.1 * (total - counts["test"])).abs().max() <= 0.5


def test_values_are_those_of_scikit_learn():
    """The images and labels are scikit-learn's, with 17 levels."""
    from sklearn.datasets import load_digits

    split, raw = Digits().split("test"), load_digits()
    batch = everything("test")
    assert batch.x[..., 0].double().equal(torch.from_numpy(raw.images[split.rows]))
    assert batch.y.equal(torch.from_numpy(raw.target[split.rows]))
    assert (int(everything("train").x.min()), int(everything("train").x.max())) == (0, 16)


def test_splits_look_alike():
    """No split differs from the others in its mean by more than chance."""
    means = [everything(name).x.double().mean() for name in SIZES]
    assert max(means) - min(means) < 0.15


@pytest.mark.parametrize("options", [{}, {"size": 4, "levels": 5, "limit": 500}])
def test_reading_is_far_faster_than_training(options: dict):
    """Batches come at 20 times the rate at which a small model trains on them (800 a second)."""
    split = Digits(**options).split("train")
    indices = torch.arange(128)
    split.take(indices)
    tries = []  # in time of the CPU, which a busy machine leaves alone
    for _ in range(5):
        start = time.process_time()
        for _ in range(10):
            split.take(indices)
        tries.append((time.process_time() - start) / 10)
    assert min(tries) < 128 / 16_000

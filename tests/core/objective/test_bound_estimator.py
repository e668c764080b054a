"""Bits/dim of a split, whatever its order: the truth is met, and error bars are as wide as needed.

Three classes with known entropies, whose losses lie at quite different levels. A split sorted by
class, as folders of pictures are, must say the same as a shuffled one.
"""

from __future__ import annotations

import math

import attrs
import pytest
import torch
from elbowroom import CategoricalPrediction, DataSpec
from elbowroom.contracts.dataset import Batch, Dataset, Split
from elbowroom.contracts.path import Shared
from elbowroom.plugins.evaluation.bound_estimator import BoundEstimator
from elbowroom.plugins.evaluation.metric import Subject
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.metrics.bpd import BitsPerDim
from elbowroom.plugins.schedules.masking import Cosine
from elbowroom.plugins.training.ranks import Ranks
from elbowroom.plugins.training.validation import validate
from elbowroom.randomness.shuffle import random_subset
from torch import Tensor

TOKENS, VALUES, COUNT = 8, 4, 1100
SPEC = DataSpec((TOKENS,), levels=VALUES, classes=3)
# class 0 is always the same, class 1 independent tokens, class 2 one token eight times
TRUTH = (0 + math.log2(VALUES) + math.log2(VALUES) / TOKENS) / 3


@attrs.frozen(eq=False)
class Rows(Split):
    x: Tensor
    y: Tensor

    def __len__(self):
        return len(self.x)

    def take(self, indices):
        return Batch(self.x[indices], self.y[indices])


@attrs.frozen(eq=False)
class Classes(Dataset):
    """Independent draws, sorted by class or not."""

    seed: int
    is_sorted: bool
    count: int = COUNT

    @property
    def spec(self):
        return SPEC

    def split(self, name):
        random = torch.Generator().manual_seed(self.seed)
        y = torch.randint(0, 3, (self.count,), generator=random)
        y = y.sort().values if self.is_sorted else y
        free = torch.randint(0, VALUES, (self.count, TOKENS), generator=random)
        same = free[:, :1].expand(-1, TOKENS)
        kind = y[:, None]
        return Rows(torch.where(kind == 0, 0, torch.where(kind == 1, free, same)), y)


class Exact:
    """The exact denoiser of each class, told which."""

    def __init__(self):
        self.process, self.schedule = Masked().bind(SPEC), Cosine(eps=1e-6)
        self.path = Shared()

    def predict(self, z, level, cond):
        seen = torch.where(z == VALUES, -1, z).amax(1, keepdim=True)  # [B, 1], -1: nothing
        known = torch.where(cond[:, None] == 0, 0, torch.where(cond[:, None] == 2, seen, -1))
        values = torch.arange(VALUES)
        logits = torch.where((known == -1) | (values == known), 0.0, -torch.inf)  # [B, V]
        return CategoricalPrediction(logits[:, None].expand(-1, TOKENS, -1))


def validated(data, seed):
    ranks = Ranks(torch.device("cpu"))
    found = validate(Exact(), data.split("validation"), ranks, 512, seed)
    return found["validation/bits_per_dim"], found["validation/standard_error"]


def measured(data, seed, **options):
    metric = BitsPerDim(**options)
    metric.prepare(Subject(data, Exact(), seed=seed, batch_size=4096))
    measurement = metric.compute()["bits_per_dim"]
    return measurement.value, measurement.standard_error


WAYS = {
    "validate": validated,
    "bpd, one draw": lambda data, seed: measured(data, seed, draws=1),
    "bpd, three draws": lambda data, seed: measured(data, seed, draws=3),
    "bpd, some examples": lambda data, seed: measured(data, seed, draws=2, limit=500),
}


@pytest.mark.parametrize("is_sorted", [True, False], ids=["sorted", "shuffled"])
@pytest.mark.parametrize("way", WAYS)
def test_error_bars_cover_whatever_the_order_of_the_split(way, is_sorted):
    """Over 24 seeds (other examples, other noise) the spread is what one measurement says."""
    found = [WAYS[way](Classes(seed, is_sorted), seed) for seed in range(24)]
    values, told = torch.tensor(found, dtype=torch.float64).T
    error = told.mean().item()
    assert values.mean().item() == pytest.approx(TRUTH, abs=3.5 * error / math.sqrt(24))
    assert 0.65 < values.std().item() / error < 1.4


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_and_batches_change_no_question(world):
    """Together the parts of all ranks are what one rank sees, for any batch size."""

    class Part(Ranks):
        def sum(self, value):
            parts.append(value)
            return value

    split, parts = Classes(0, is_sorted=True, count=1030).split("validation"), []
    validate(Exact(), split, Part(torch.device("cpu")), 1000)
    for rank in range(world):
        validate(Exact(), split, Part(torch.device("cpu"), rank, world), 96)
    assert torch.allclose(sum(parts[1:]), parts[0])


def test_the_order_changes_questions_but_not_which_times_are_asked():
    """All looks are evenly spread; those of one example are as far apart as they can be."""
    data = Classes(0, is_sorted=True, count=50)
    looks = BoundEstimator(Exact(), data.split("test"), torch.arange(50), 3, 0, 0, "cpu")
    t = looks.times(torch.arange(50))
    gaps = t.flatten().sort().values.diff()
    assert torch.allclose(gaps, torch.full_like(gaps, 1 / 150), atol=1e-9)
    apart = (t - t[:1]) % 1
    assert torch.allclose(apart.sort(0).values[1:], torch.tensor([[1 / 3], [2 / 3]]).double())
    place = torch.arange(50).double()
    unwrapped = (t[0] - t[0].min()) % 1
    assert abs(torch.corrcoef(torch.stack((place, unwrapped)))[0, 1]) < 0.4
    assert torch.equal(looks.times(torch.tensor([7, 3])), t[:, [7, 3]])  # batches change nothing


def test_a_part_of_a_whole_is_a_random_one():
    """Not the first ones and not every k-th, which would follow the order of the whole."""
    part = random_subset(100, 1000, 0)
    assert torch.equal(part, part.unique()) and len(part) == 100
    assert torch.bincount(part % 10, minlength=10).max() < 25
    assert torch.bincount(part // 100, minlength=10).max() < 25
    assert not torch.equal(part, random_subset(100, 1000, 1))
    assert torch.equal(random_subset(50, 20, 3), torch.arange(20))

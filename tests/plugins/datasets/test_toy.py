"""Distributions that are exactly known."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from elbowroom.contracts.dataset import SPLITS, DataSpec
from elbowroom.plugins.datasets.toy import CoupledTriple, IndependentBits, Tabular
from scipy.stats import chi2

ALL = [
    CoupledTriple(),
    IndependentBits(),
    IndependentBits(bits=1),
    IndependentBits(bits=6, low=0.3),
]


def test_triple_is_the_stated_distribution():
    """The probabilities are those of the formula, state by state."""
    weights = {
        (a, b, c): math.exp(
            1.5 * math.cos(2 * math.pi * (a - b) / 3)
            + 1.0 * math.cos(2 * math.pi * (b - c) / 3)
            + 0.3 * a
        )
        for a, b, c in itertools.product(range(3), repeat=3)
    }
    total = sum(weights.values())
    data = CoupledTriple()
    assert data.spec == DataSpec((3,), levels=3)
    assert len(data.states) == 27
    for state, p in zip(data.states.tolist(), data.probabilities.tolist(), strict=True):
        assert p == pytest.approx(weights[tuple(state)] / total, rel=1e-12)


def test_bits_are_independent():
    """Each bit has its own probability, and the entropy is the sum of theirs."""
    data = IndependentBits(bits=3, low=0.1, high=0.7)
    ones = (data.probabilities[:, None] * data.states).sum(0)
    assert ones.tolist() == pytest.approx([0.1, 0.4, 0.7])
    entropy = sum(-p * math.log(p) - (1 - p) * math.log(1 - p) for p in (0.1, 0.4, 0.7))
    assert data.entropy == pytest.approx(entropy, rel=1e-12)


@pytest.mark.parametrize("data", ALL, ids=repr)
def test_tables_are_complete(data: Tabular):
    """Probabilities sum to one and the states are distinct values of the spec."""
    assert float(data.probabilities.sum()) == pytest.approx(1, abs=1e-12)
    assert data.probabilities.dtype == torch.float64
    assert len(data.states.unique(dim=0)) == len(data.states) == data.spec.levels**data.spec.dims
    assert data.states.min() == 0
    assert data.states.max() == data.spec.levels - 1


@pytest.mark.parametrize("data", ALL, ids=repr)
@pytest.mark.parametrize("name", SPLITS)
def test_draws_follow_the_distribution(data: Tabular, name: str):
    """Drawn examples pass a chi-squared test against the table."""
    split = data.split(name)
    x = split.take(torch.arange(len(split))).x
    weight = data.spec.levels ** torch.arange(data.spec.dims)
    place = {int(s @ weight): i for i, s in enumerate(data.states)}
    drawn = torch.tensor([place[int(key)] for key in x @ weight])
    expected = data.probabilities * len(split)
    counts = drawn.bincount(minlength=len(expected))
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert statistic < chi2.ppf(1 - 1e-4, len(expected) - 1)


def test_splits_are_different_draws():
    """The splits do not repeat each other, and an example depends on its index only."""
    data = CoupledTriple(examples=100)
    assert [len(data.split(name)) for name in SPLITS] == [100, 10, 10]
    first = [data.split(name).take(torch.arange(10)).x for name in SPLITS]
    assert not first[0].equal(first[1])
    assert not first[1].equal(first[2])
    assert data.split("train").take(torch.tensor([7, 3])).x.equal(first[0][[7, 3]])
    assert CoupledTriple().split("train").take(torch.arange(10)).x.equal(first[0])


def test_out_of_range_is_refused():
    """There is no example beyond the split, nor a negative one."""
    for index in (-1, 65_536):
        with pytest.raises(IndexError):
            CoupledTriple().split("train").take(torch.tensor([index]))


@pytest.mark.parametrize("options", [{"bits": 0}, {"bits": 17}, {"low": 0.0}, {"high": 1.0}])
def test_nonsense_is_refused(options: dict):
    """Tables too large and probabilities of zero or one are refused."""
    with pytest.raises(ValueError, match="must be"):
        IndependentBits(**options)

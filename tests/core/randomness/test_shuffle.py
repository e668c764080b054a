"""The order of training examples."""

from __future__ import annotations

import pytest
import torch
from elbowroom.randomness.shuffle import indices, permute
from hypothesis import given, settings, strategies as st
from scipy.stats import chi2

SEEDS = st.integers(0, 2**64 - 1)


def batch(seed: int, step: int, total: int, size: int) -> torch.Tensor:
    return indices(seed, step, torch.arange(total), total, size)


@given(size=st.integers(1, 3000), seed=SEEDS, epoch=st.integers(0, 2**62))
def test_permutes(size: int, seed: int, epoch: int):
    """Every size, seed and epoch gives a permutation."""
    image = permute(torch.arange(size), size, seed, epoch)
    assert image.sort().values.tolist() == list(range(size))


@given(size=st.integers(1, 60), total=st.integers(1, 40), seed=SEEDS)
@settings(max_examples=50)
def test_each_epoch_visits_each_example_once(size: int, total: int, seed: int):
    """The stream of examples is one permutation of the data after another."""
    steps = -(-3 * size // total)
    stream = torch.cat([batch(seed, step, total, size) for step in range(steps)])
    for epoch in stream[: 3 * size].reshape(3, size):
        assert epoch.sort().values.tolist() == list(range(size))


@given(
    size=st.integers(1, 10**7),
    step=st.integers(0, 10**6),
    ranks=st.integers(1, 8),
    each=st.integers(1, 16),
    seed=SEEDS,
)
def test_ranks_see_their_part_of_the_same_batch(
    size: int, step: int, ranks: int, each: int, seed: int
):
    """However a global batch is split over ranks, the examples at its positions are the same."""
    total = ranks * each
    whole = batch(seed, step, total, size)
    parts = [
        indices(seed, step, torch.arange(rank, total, ranks), total, size) for rank in range(ranks)
    ]
    assert torch.stack(parts, 1).reshape(-1).equal(whole)


def test_any_step_can_be_asked_first():
    """A step's batch does not depend on which steps were asked before it."""
    later = batch(7, 41, 32, 1437)
    for step in range(41):
        batch(7, step, 32, 1437)
    assert batch(7, 41, 32, 1437).equal(later)


def test_epochs_and_seeds_differ():
    """Another epoch or another seed is another order."""
    slots = torch.arange(1000)
    orders = [permute(slots, 1000, seed, epoch) for seed in range(3) for epoch in range(3)]
    orders += [permute(slots, 1000, 2**32), permute(slots, 1000, 0, 2**32)]
    for i, one in enumerate(orders):
        for other in orders[:i]:
            assert (one == other).float().mean() < 0.02


def test_batch_spans_two_epochs():
    """A batch larger than what is left of an epoch goes on with the next one."""
    first, second = (permute(torch.arange(10), 10, 3, epoch) for epoch in (0, 1))
    assert batch(3, 1, 6, 10).equal(torch.cat([first[6:], second[:2]]))


@pytest.mark.parametrize("size", [2, 3, 4, 5, 10, 17, 30])
def test_every_place_is_equally_likely(size: int):
    """Over many epochs each example comes equally often to each place."""
    draws = 4000
    slots = torch.arange(size).repeat(draws)
    epochs = torch.arange(draws).repeat_interleave(size)
    image = permute(slots, size, 5, epochs)
    counts = torch.zeros(size, size).index_put_(
        (slots, image), torch.ones(len(slots)), accumulate=True
    )
    expected = draws / size
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert statistic < chi2.ppf(1 - 1e-4, (size - 1) ** 2)


def test_neighbours_part():
    """Examples that follow each other in the data do not follow each other in the order."""
    image = permute(torch.arange(10_000), 10_000, 0)
    assert ((image[1:] - image[:-1]).abs() == 1).float().mean() < 0.001
    x = torch.stack([torch.arange(10_000), image]).double()
    assert abs(float(torch.corrcoef(x)[0, 1])) < 0.05


def test_pinned():
    """The order is part of what a seed means, and does not change between versions."""
    assert batch(0, 0, 8, 1437).tolist() == [160, 256, 404, 375, 281, 752, 694, 77]
    large = permute(torch.tensor([0, 1, 2]), 2**40 + 1, 2**63)
    assert large.tolist() == [
        1094352035368,
        881900350419,
        54239790839,
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 0}, "not 0"),
        ({"size": 2**48 + 1}, "elements"),
        ({"total": 0}, "at least 1"),
        ({"step": -1}, "count from 0"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, "seed"),
    ],
)
def test_nonsense_is_refused(change: dict, message: str):
    """Sizes, steps and seeds that mean nothing are named in the error."""
    sound = {"seed": 0, "step": 0, "positions": torch.arange(2), "total": 2, "size": 10}
    with pytest.raises(ValueError, match=message):
        indices(**{**sound, **change})

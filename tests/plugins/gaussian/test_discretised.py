"""The discretised likelihood: the full softmax's value, without its memory."""

from __future__ import annotations

import math

import pytest
import torch
from elbowroom import DataSpec, Level, Noise
from elbowroom.plugins.gaussian.discretised import log_probability, values_that_count
from elbowroom.plugins.gaussian.process import Gaussian
from hypothesis import given, settings, strategies as st

from tests.helpers.largest import Largest


def softmax(z: torch.Tensor, k: torch.Tensor, level: Level, values: int) -> torch.Tensor:
    """By the definition: every value of every element."""
    x = (2 * torch.arange(values, dtype=torch.float64) + 1) / values - 1
    distance = (z.unsqueeze(-1) - level.share.sqrt().unsqueeze(-1) * x) ** 2
    log_p = (-distance / (2 * level.noise_share.unsqueeze(-1))).log_softmax(-1)
    return log_p.gather(-1, k.unsqueeze(-1)).squeeze(-1)


@given(
    values=st.integers(2, 300),
    lam=st.floats(-14, 16),
    eps=st.lists(st.floats(-9, 9), min_size=1, max_size=6),
    seed=st.integers(0, 99),
)
@settings(deadline=None)
def test_it_is_the_full_softmax(values, lam, eps, seed):
    """For any number of values, from noise in which all count to data where one does."""
    process = Gaussian().bind(DataSpec((len(eps),), values))
    k = Noise.of(seed, 3).integers("k", values, (len(eps),))
    level = Level.at(torch.full((3, 1), lam, dtype=torch.float64), process)
    x = process.encode(k).double()
    z = level.share.sqrt() * x + level.noise_share.sqrt() * torch.tensor(eps, dtype=torch.float64)
    ours, theirs = log_probability(z, k, level, values), softmax(z, k, level, values)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


@given(values=st.integers(2, 1000), lam=st.floats(-14, 16), place=st.floats(-20, 1020))
@settings(deadline=None)
def test_what_is_left_out_is_less_than_float64_can_say(values, lam, place):
    """Summed exactly: for any z, inside the values' range or outside."""
    q = 2 * math.exp(lam) / values**2
    c = min(max(round(place), 0), values - 1)
    n = values_that_count(q, values)
    first = min(max(c - n // 2, 0), values - n)
    terms = [math.exp(-q * (j - c) * (j - c - 2 * (place - c))) for j in range(values)]
    assert math.fsum(terms[:first] + terms[first + n :]) <= 2**-53 * math.fsum(terms)


@pytest.mark.parametrize(("lam", "count"), [(16.0, 3), (13.3, 5), (8.0, 45), (0.0, 256)])
def test_few_values_count_near_the_data(lam, count):
    """Of 256: a handful where paths end, all in noise."""
    assert values_that_count(2 * math.exp(lam) / 256**2, 256) == count


@pytest.mark.parametrize("lam", [0.0, 13.3])
def test_no_tensor_grows_with_the_number_of_values(lam):
    """The largest one that a reconstruction makes is as large for 4096 values as for 2."""
    largest = {}
    for values in (2, 256, 4096):
        process = Gaussian().bind(DataSpec((8, 8, 3), values))
        x = process.encode(torch.zeros(2, 8, 8, 3, dtype=torch.int64))
        level = Level.at(torch.tensor(lam, dtype=torch.float64), process).over(x)
        with Largest() as seen:
            process.reconstruction(x, level, Noise.of(0, 2))
        largest[values] = seen.numbers
    assert largest[4096] == largest[256] == largest[2] <= 4 * x.numel()

"""Drawing values without losing the tail of their distribution."""

from __future__ import annotations

import math

import pytest
import torch
from elbowroom import Noise
from elbowroom.randomness.categorical import draw_categorical
from hypothesis import given, strategies as st

VOCABULARY = 2**20
TAIL = 0.05  # what all values but the first hold together


def tail_logits() -> torch.Tensor:
    """One likely value, and a million that together hold 5 %."""
    logits = torch.full((VOCABULARY,), math.log(TAIL / (VOCABULARY - 1)))
    logits[0] = math.log(1 - TAIL)
    return logits


def test_rare_values_come_as_often_as_they_should():
    """Evenly spread uniforms hit the tail of a million values exactly as often as its share."""
    u = (torch.arange(200, dtype=torch.float64) + 0.5) / 200
    logits = tail_logits()
    hits = sum(int(draw_categorical(logits, one) > 0) for one in u[150:])
    assert hits == 200 * TAIL


def test_a_float32_gumbel_draw_loses_the_tail():
    """The customary argmax of logits + Gumbel noise in float32 fails the check above by far.

    Float32 uniforms are multiples of 2^-24. The largest of n of them is below k 2^-24 with
    probability (k 2^-24)^n, so the largest Gumbel number of the tail, whose logits are all equal,
    can be drawn directly: the same law as drawing a million, for many draws.
    """
    draws, grain = 100_000, 2.0**-24
    noise = Noise.of(0, draws)
    largest = (noise.uniform("tail") ** (1 / (VOCABULARY - 1)) / grain).floor() * grain
    first = (noise.uniform("first") / grain).floor() * grain

    def gumbel(u: torch.Tensor) -> torch.Tensor:
        return -(-u.float().clamp(min=1e-20).log()).log()

    logits = tail_logits()
    naive = (logits[1] + gumbel(largest) > logits[0] + gumbel(first)).double().mean().item()
    error = math.sqrt(TAIL * (1 - TAIL) / draws)
    assert naive < TAIL - 10 * error


def test_a_value_float32_gumbel_numbers_can_never_reach():
    """p = e^-20 comes when its uniform does; no two float32 Gumbel numbers are 20 apart."""
    logits = torch.tensor([0.0, -20.0])
    assert draw_categorical(logits, torch.tensor(1 - 1e-9, dtype=torch.float64)) == 1
    assert draw_categorical(logits, torch.tensor(1 - 3e-9, dtype=torch.float64)) == 0
    u = torch.tensor([1 - 2.0**-24, 2.0**-24])
    largest, least = (-(-u.log()).log()).tolist()
    assert largest - least < 20


@given(st.lists(st.floats(-30, 30), min_size=1, max_size=8), st.floats(1e-12, 1 - 1e-12))
def test_draws_invert_the_cdf(logits, u):
    """The value drawn is the first whose CDF reaches u."""
    p = torch.tensor(logits, dtype=torch.float64).softmax(0)
    k = int(draw_categorical(torch.tensor(logits, dtype=torch.float64), torch.tensor(u)))
    u = float(torch.tensor(u))  # float32
    below, upto = p[:k].sum().item(), p[: k + 1].sum().item()
    assert below - 1e-12 <= u <= upto + 1e-12 or k == len(logits) - 1


def test_impossible_values_never_come():
    """A value of probability zero is not drawn, wherever it stands."""
    logits = torch.tensor([-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf])
    u = Noise.of(0, 1000).uniform("value")
    drawn = draw_categorical(logits.expand(1000, 5), u)
    assert set(drawn.tolist()) == {1, 3}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_draws_have_the_right_frequencies(dtype):
    """Values come in proportion to their probabilities, in any precision of the logits."""
    logits = torch.tensor([0.0, 1.0, -1.0], dtype=dtype)
    drawn = draw_categorical(logits.expand(20_000, 3), Noise.of(1, 20_000).uniform("value"))
    share = torch.bincount(drawn, minlength=3) / 20_000
    assert torch.allclose(share.double(), logits.double().softmax(0), atol=0.012)

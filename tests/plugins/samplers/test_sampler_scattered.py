"""Scattered sampling against the law of its groups, enumerated, and what its order promises."""

from __future__ import annotations

import itertools

import pytest
import torch
from elbowroom import DataSpec, Noise
from elbowroom.plugins.conformance.oracle import TableOracle
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.samplers.first_hitting import FirstHitting
from elbowroom.plugins.samplers.scattered import Scattered, evenly_spread, scattered_order, turns
from elbowroom.plugins.schedules.masking import Linear
from hypothesis import given, strategies as st
from sampling_laws import DRAWS, STATES, TOKENS, OracleModel, drawn, masked_model, p_value, table

AGREES, DIFFERS = 1e-3, 1e-6
MODEL = masked_model(Linear())


def groups_of(sampler: Scattered, shift: int) -> list[list[int]]:
    """The tokens of each step, for a sequence that is shifted so."""
    order = sorted(range(TOKENS), key=lambda k: int(scattered_order((3,))[(k + shift) % 3]))
    hidden = sampler.levels(MODEL).noise_share
    left = [round(TOKENS * float(one / hidden[0])) for one in hidden[:-1]] + [0]
    ends = [TOKENS - many for many in left]
    return [order[a:b] for a, b in itertools.pairwise(ends)]


def follow(law, groups, z, weight) -> None:
    """Add the law of drawing group after group, each as if its tokens did not see each other."""
    if not groups:
        law[z[0] * 9 + z[1] * 3 + z[2]] += weight
        return
    level = Scattered().levels(MODEL).select(torch.zeros(1, dtype=torch.long))
    tensor = torch.tensor([z])
    say = MODEL.predict(tensor, level.over(tensor), None).logits.softmax(-1)[0].tolist()
    for values in itertools.product(range(STATES), repeat=len(groups[0])):
        new, chance = list(z), weight
        for k, value in zip(groups[0], values, strict=True):
            new[k] = value
            chance *= say[k][value]
        follow(law, groups[1:], new, chance)


def law_of(sampler: Scattered) -> torch.Tensor:
    law = torch.zeros(STATES**TOKENS, dtype=torch.float64)
    for shift in range(3):
        follow(law, groups_of(sampler, shift), [STATES] * TOKENS, 1 / 3)
    return law


@pytest.mark.parametrize("steps", [1, 2, 3, 8])
def test_samples_are_those_of_its_groups(steps):
    """Exactly their law; with one token a call it is the data's."""
    found = Scattered(steps).sample(MODEL, Noise.of(0, DRAWS))
    assert p_value(found.x, law_of(Scattered(steps))) > AGREES
    data = p_value(found.x, table().probabilities)
    assert data < DIFFERS if steps < 3 else data > AGREES
    assert (found.calls == min(steps, 3)).all()


def test_neighbours_that_are_one_another_need_no_call_of_their_own():
    """Of pairs that are always equal it takes one each; groups left to chance take both of some."""
    states = torch.tensor([[a, a, b, b] for a in (0, 1) for b in (0, 1)])
    data = TableOracle(states, torch.full((4,), 0.25, dtype=torch.float64))
    process = Masked().bind(DataSpec((4,), 2))
    model = OracleModel(process, Linear(), data.predict(process))
    apart, by_chance = (drawn(one, model, 2000) for one in (Scattered(2), FirstHitting(2)))
    assert (apart[:, 0] == apart[:, 1]).all() and (apart[:, 2] == apart[:, 3]).all()
    assert (by_chance[:, 0] != by_chance[:, 1]).float().mean() > 0.05


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_every_cell_has_its_turn(shape):
    """Each once, whatever the box."""
    order = scattered_order(tuple(shape))
    assert sorted(order.tolist()) == list(range(order.numel()))


@pytest.mark.parametrize("shape", [(8, 8, 1), (14, 14, 1), (28, 28), (64,), (100,)])
@pytest.mark.parametrize("together", [2, 5, 8])
def test_tokens_of_a_group_are_no_neighbours(shape, together):
    """Around the edges too: of so many in a row hardly any touch, by chance many would."""
    order = scattered_order(shape).view([size for size in shape if size > 1])

    def touching(turn):
        group = turn // together
        return sum(int((group == group.roll(1, axis)).sum()) for axis in range(turn.ndim))

    by_chance = touching(
        torch.randperm(order.numel(), generator=torch.manual_seed(0)).view_as(order)
    )
    assert touching(order) <= 0.1 * by_chance + 1


def test_the_sequence_of_one_axis_is_the_golden_ratios():
    """phi = 1.618..., and in two dimensions phi^3 = phi + 1."""
    golden = (1 + 5**0.5) / 2
    assert evenly_spread(3, 1)[:, 0] == pytest.approx(
        [0.5, 0.5 + 1 / golden - 1, (0.5 + 2 / golden) % 1]
    )
    plastic = 1 / (evenly_spread(2, 2)[1, 0] + 1 - 0.5)
    assert plastic**3 == pytest.approx(plastic + 1)


def test_every_token_is_as_likely_as_any_other_to_be_the_kth():
    """By the shift, which is each sample's own and does not depend on the others."""
    process = Masked().bind(DataSpec((2, 4), 3))
    model = OracleModel(process, Linear(), lambda z, _: z)
    path = Scattered().path(model, Noise.of(0, 8000), None)
    path.start(None)
    found = turns(path)
    assert found.shape == (8000, 8)
    share = torch.stack([(found == k).double().mean(0) for k in range(8)])
    assert (share - 1 / 8).abs().max() < 5 * (7 / 64 / 8000) ** 0.5
    some = path.noise.select(torch.arange(5, 9))
    alone = Scattered().path(model, some, None)
    alone.start(None)
    assert torch.equal(turns(alone), found[5:9])


def test_what_is_visible_at_the_start_stays():
    """Filling in: only hidden tokens have a turn."""
    z = torch.tensor([[0, STATES, 2]]).expand(500, -1)
    *_, last = Scattered(2).frames(MODEL, Noise.of(0, 500), z=z)
    assert (last.x[:, 0] == 0).all() and (last.x[:, 2] == 2).all()

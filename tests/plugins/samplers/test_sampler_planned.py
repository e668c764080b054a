"""Path planning against the law of its rule, enumerated."""

from __future__ import annotations

import itertools

import pytest
import torch
from elbowroom import CategoricalPrediction, Noise
from elbowroom.conformance.oracle import every_state
from elbowroom.plugins.samplers.confidence import Confidence
from elbowroom.plugins.samplers.planned import Planned, highest
from elbowroom.plugins.schedules.masking import Linear
from sampling_laws import (
    DRAWS,
    STATES,
    TOKENS,
    OracleModel,
    drawn,
    masked_model,
    number,
    path_p_value,
)

AGREES, DIFFERS = 1e-3, 1e-6
EVERY = every_state((TOKENS,), STATES + 1)


def doubting(told: bool = False) -> OracleModel:
    """Says of each token, visible or not, what the other visible ones say of it."""
    model = masked_model(Linear(), told=told)
    exact = model._predict

    def others(z, level):
        each = [exact(z.index_fill(1, torch.tensor(k), STATES), level).logits[:, k] for k in
                range(TOKENS)]  # fmt: skip
        return CategoricalPrediction(torch.stack(each, 1))

    return OracleModel(model.process, model.schedule, others)


def planned_laws(model: OracleModel, sampler: Planned) -> list[torch.Tensor]:
    """The law of z after each step, [64], by following every draw of every state."""
    levels = sampler.levels(model)
    share = levels.noise_share.tolist()
    law = (EVERY == STATES).all(1).double()
    laws = [law]
    for i in range(sampler.steps):
        last = i == sampler.steps - 1
        stay = 0 if last else round(TOKENS * share[i + 1] / share[0])
        level = levels.select(torch.full((len(EVERY),), i)).over(EVERY)
        say = model.predict(EVERY, level, None).logits.double().log_softmax(-1)
        after = torch.zeros_like(law)
        for z, p, weight in zip(EVERY.tolist(), say, law.tolist(), strict=True):
            hidden = [k for k in range(TOKENS) if z[k] == STATES]
            for values in itertools.product(range(STATES), repeat=len(hidden)):
                if weight == 0:
                    continue
                x = list(z)
                chance = weight
                for k, value in zip(hidden, values, strict=True):
                    x[k] = value
                    chance *= float(p[k, value].exp())
                score = [float(p[k, x[k]]) * (1 if k in hidden else sampler.eta)
                         for k in range(TOKENS)]  # fmt: skip
                order = sorted(range(TOKENS), key=lambda k: (-score[k], k in hidden, k))
                for k in order[TOKENS - min(stay, len(hidden)) :]:
                    x[k] = STATES
                after[number(torch.tensor([x]), STATES + 1)] += chance
        law = after
        laws.append(law)
    return laws


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("eta", [0.0, 0.5, 1.0, 4.0])
def test_paths_have_the_law_of_the_rule(eta, told):
    """After each step z has exactly the law of drawing, ranking, taking and hiding again."""
    model, sampler = doubting(told), Planned(6, eta=eta)
    laws = planned_laws(model, sampler)
    for frame in sampler.frames(model, Noise.of(0, DRAWS)):
        assert path_p_value(frame.z, laws[frame.step]) > AGREES


def test_the_check_notices_another_eta():
    """The laws of the test above are different ones."""
    model = doubting()
    last = [frame.z for frame in Planned(6, eta=4.0).frames(model, Noise.of(0, DRAWS))][-1]
    assert path_p_value(last, planned_laws(model, Planned(6, eta=1.0))[-1]) < DIFFERS


def test_doubted_tokens_are_hidden_again_the_more_the_larger_eta():
    """Counted along the path; with eta = 0 none is."""

    def hidden_again(eta):
        paths = [frame.z for frame in Planned(8, eta=eta).frames(doubting(), Noise.of(0, 500))]
        return sum(int(((a != STATES) & (b == STATES)).sum()) for a, b in itertools.pairwise(paths))

    counts = [hidden_again(eta) for eta in (0.0, 0.5, 1.0, 4.0)]
    assert counts[0] == 0
    assert counts == sorted(counts)
    assert counts[-1] > counts[0]


@pytest.mark.parametrize("model", [doubting(), masked_model(Linear())], ids=["doubting", "exact"])
def test_without_doubt_it_is_the_surest_first(model):
    """eta = 0 draws the samples of ``confidence`` at temperature 0."""
    by_confidence = drawn(Confidence(5, temperature=0.0), model, 500)
    assert torch.equal(drawn(Planned(5, eta=0.0), model, 500), by_confidence)


def test_an_exact_denoiser_never_doubts_what_is_visible():
    """It is sure of what it sees: whatever eta, nothing is hidden again."""
    model = masked_model(Linear())
    assert torch.equal(
        drawn(Planned(5, eta=9.0), model, 500), drawn(Planned(5, eta=0.0), model, 500)
    )


def test_the_highest_are_chosen_and_of_equal_ones_those_that_are_visible():
    """As many as are asked for in each sample."""
    score = torch.tensor([[-1.0, 0.0, -3.0, 0.0], [-2.0, -2.0, -2.0, -5.0]])
    hidden = torch.tensor([[False, True, False, False], [True, False, True, False]])
    assert highest(score, hidden, torch.tensor([1, 1])).nonzero().tolist() == [[0, 3], [1, 1]]
    assert highest(score, hidden, torch.tensor([3, 2])).nonzero().tolist() == [
        [0, 0], [0, 1], [0, 3], [1, 0], [1, 1],
    ]  # fmt: skip

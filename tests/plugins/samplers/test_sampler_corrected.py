"""Predictor and corrector: what a correction keeps, and where corrections lead."""

from __future__ import annotations

import itertools

import pytest
import torch
from elbowroom import Noise
from elbowroom.contracts.trajectory import Trajectory
from elbowroom.plugins.conformance.oracle import every_state
from elbowroom.plugins.samplers.ancestral import Ancestral
from elbowroom.plugins.samplers.corrected import Corrected, correct
from sampling_laws import (
    DRAWS,
    STATES,
    TOKENS,
    chain_law,
    corrupted,
    divergence,
    drawn,
    masked_model,
    number,
    p_value,
    path_law,
    path_p_value,
    table,
)

AGREES, DIFFERS = 1e-3, 1e-6
EVERY = every_state((TOKENS,), STATES + 1)


def kernel(model, level, tokens: int) -> torch.Tensor:
    """[64, 64] hide some of the visible tokens, every choice alike, and draw them again."""
    rows = torch.zeros(len(EVERY), len(EVERY), dtype=torch.float64)
    for n, z in enumerate(EVERY.tolist()):
        visible = [k for k in range(TOKENS) if z[k] != STATES]
        choices = list(itertools.combinations(visible, min(tokens, len(visible))))
        for chosen in choices:
            seen = torch.tensor([[STATES if k in chosen else v for k, v in enumerate(z)]])
            say = model.predict(seen, level.over(seen), None).logits.double().softmax(-1)[0]
            for values in itertools.product(range(STATES), repeat=len(chosen)):
                new = list(z)
                chance = 1.0 / len(choices)
                for k, value in zip(chosen, values, strict=True):
                    new[k] = value
                    chance *= float(say[k, value])
                rows[n, int(number(torch.tensor([new]), STATES + 1))] += chance
    return rows


def level_of(sampler, model, i):
    return sampler.levels(model).select(torch.tensor([i]))


# -- one correction


@pytest.mark.parametrize("share", [0.3, 0.7, 1.0])
def test_a_correction_of_one_token_keeps_the_marginal(share):
    """With an exact denoiser q(z_t) goes into itself, at every level; two tokens at once do not.

    In the enumerated kernel, and in samples after five corrections.
    """
    model, sampler, law = masked_model(), Corrected(4), corrupted(share)
    level = level_of(sampler, model, 2)
    assert torch.allclose(law @ kernel(model, level, 1), law, atol=1e-12)
    assert divergence(law, law @ kernel(model, level, 2)) > 1e-3
    noise = Noise.of(7, DRAWS)
    path = Trajectory(model, noise, None, sampler)
    path.start()
    start = torch.multinomial(law, DRAWS, True, generator=torch.Generator().manual_seed(0))
    for tokens in (1, 2):
        z = EVERY[start]
        for k in range(5):
            z = correct(path, z, level.over(z), noise.at(k), tokens)
        p = path_p_value(z, law)
        assert p > AGREES if tokens == 1 else p < DIFFERS


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("tokens", [1, 2, 3, 9])
def test_a_correction_draws_what_it_says(tokens, told):
    """From every state, whatever the denoiser: the frequencies of the enumerated kernel."""
    model, sampler = masked_model(told=told), Corrected(4)
    level, many = level_of(sampler, model, 3), 600
    noise = Noise.of(5, len(EVERY) * many)
    path = Trajectory(model, noise, None, sampler)
    path.start()
    z = EVERY.repeat_interleave(many, 0)
    after = correct(path, z, level.over(z), noise.at(1), tokens)
    assert ((after == STATES) == (z == STATES)).all()  # what is visible stays so
    uniform = torch.full((len(EVERY),), 1 / len(EVERY), dtype=torch.float64)
    assert path_p_value(after, uniform @ kernel(model, level, tokens)) > AGREES
    few = (z == STATES).sum(1) == 0  # of whole pictures alone, where most can go wrong
    whole = (EVERY != STATES).all(1).double()
    due = whole / whole.sum() @ kernel(model, level, tokens)
    assert path_p_value(after[few], due) > AGREES


# -- along a path


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("sampler", [Corrected(3, corrections=2), Corrected(3, tokens=2)], ids=str)
def test_paths_have_the_law_of_the_chain(sampler, told):
    """After each step z has exactly the law of a reverse step and the corrections behind it."""
    model = masked_model(told=told)
    levels = sampler.levels(model)

    def after(i):
        one = kernel(model, level_of(sampler, model, i + 1), sampler.tokens)
        return torch.linalg.matrix_power(one, sampler.corrections)

    for frame in sampler.frames(model, Noise.of(0, DRAWS)):
        if frame.x is None:
            law = path_law(model, levels, frame.step, after=after)
            assert path_p_value(frame.z, law) > AGREES


def test_without_corrections_it_is_ancestral_sampling():
    """The same samples and calls."""
    for told in (False, True):
        model, noise = masked_model(told=told), Noise.of(0, 500)
        one, other = (
            Corrected(7, corrections=0).sample(model, noise),
            Ancestral(7).sample(model, noise),
        )
        assert torch.equal(one.x, other.x)
        assert torch.equal(one.calls, other.calls)


def test_corrections_lead_to_the_marginal_and_never_away():
    """KL from q(z_t) falls with every correction, at each level of a path of three steps."""
    model, sampler = masked_model(), Corrected(3)
    levels = sampler.levels(model)
    for i in range(1, 4):
        a_1, a_s = float(levels.share[0]), float(levels.share[i])
        due = corrupted((a_s - a_1) / (1 - a_1))
        law = path_law(model, levels, i)
        one = kernel(model, level_of(sampler, model, i), 1)
        found = []
        for _ in range(30):
            found.append(divergence(law, due))
            law = law @ one
        assert all(b <= a + 1e-12 for a, b in itertools.pairwise(found))
        assert found[-1] < 0.01 * found[0] or found[0] < 1e-9


def test_a_path_of_one_step_and_many_corrections_samples_the_data():
    """All tokens at once, then Gibbs: the dependence that was lost is found again."""
    model = masked_model()
    hasty, mended = Corrected(1, corrections=0), Corrected(1, corrections=40)
    assert p_value(drawn(hasty, model, 8000), table().probabilities) < DIFFERS
    assert p_value(drawn(mended, model, 8000), table().probabilities) > AGREES
    assert p_value(drawn(hasty, model, 8000), chain_law(model, hasty.levels(model))) > AGREES

"""Stability sampling against the law of its rule, enumerated."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from elbowroom import CategoricalPrediction, Noise
from elbowroom.plugins.samplers.stable import Stable, _Said, divergence
from elbowroom.plugins.schedules.masking import Linear
from hypothesis import given
from hypothesis import strategies as st
from sampling_laws import DRAWS, STATES, TOKENS, OracleModel, drawn, masked_model, p_value, table
from sampling_laws import divergence as kl_of_laws

AGREES, DIFFERS = 1e-3, 1e-6
MODEL = masked_model(Linear())


def predicted(z: tuple[int, ...]) -> list[list[float]]:
    """The exact denoiser's probabilities; the level does not matter to it."""
    level = Stable().levels(MODEL).select(torch.zeros(1, dtype=torch.long))
    tensor = torch.tensor([z])
    return MODEL.predict(tensor, level.over(tensor), None).logits.softmax(-1)[0].tolist()


def kl(p: list[float], q: list[float]) -> float:
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


class Rule:
    """The law of the rule and what it may lose, by following every draw."""

    def __init__(self, sampler: Stable) -> None:
        self.sampler = sampler
        self.law = torch.zeros(STATES**TOKENS, dtype=torch.float64)
        self.calls, self.together = 0.0, 0.0  # means: calls, tokens beside the first of a call
        self.follow((STATES,) * TOKENS, {}, {}, 1.0, 1)

    def follow(self, z, before, calm, weight, call) -> None:
        hidden = [k for k in range(TOKENS) if z[k] == STATES]
        if not hidden:
            self.law[z[0] * 9 + z[1] * 3 + z[2]] += weight
            return
        say, s = predicted(z), self.sampler
        still = {k: k in before and kl(say[k], before[k]) < s.kl for k in hidden}
        calm = {k: calm.get(k, 0) + 1 if still[k] else 0 for k in hidden}
        due = [k for k in hidden if calm[k] >= s.history and max(say[k]) >= s.confidence]
        due = hidden if call == s.steps else due or [max(hidden, key=lambda k: max(say[k]))]
        self.calls += weight
        self.together += weight * (len(due) - 1)
        for values in itertools.product(range(STATES), repeat=len(due)):
            new = list(z)
            chance = weight
            for k, value in zip(due, values, strict=True):
                new[k] = value
                chance *= say[k][value]
            self.follow(tuple(new), {k: say[k] for k in hidden}, calm, chance, call + 1)


@pytest.mark.parametrize(
    "sampler",
    [
        Stable(confidence=0.5, kl=0.5, history=1),
        Stable(confidence=0.7, kl=2.0, history=1),
        Stable(confidence=0.4, kl=0.3, history=2),
        Stable(2, confidence=1.0),
    ],
    ids=str,
)
def test_samples_and_calls_are_those_of_the_rule(sampler):
    """Exactly its law, few calls or many; where tokens come together it is not the data's."""
    rule, found = Rule(sampler), sampler.sample(MODEL, Noise.of(0, DRAWS))
    assert p_value(found.x, rule.law) > AGREES
    assert float(found.calls.double().mean()) == pytest.approx(rule.calls, abs=0.02)
    data = p_value(found.x, table().probabilities)
    assert data < DIFFERS if rule.together > 0.2 else data > AGREES


def test_the_rule_is_not_an_empty_one():
    """The thresholds matter: each of them changes how many tokens come together."""
    ready = Rule(Stable(confidence=0.5, kl=0.5, history=1)).together
    assert ready > 0.2
    for other in (
        Stable(confidence=0.95, kl=0.5, history=1),
        Stable(confidence=0.5, kl=1e-6, history=1),
        Stable(confidence=0.5, kl=0.5, history=2),
    ):
        assert Rule(other).together < ready


def test_certain_tokens_alone_come_together_and_the_data_come_out():
    """With confidence 1 the order depends on what is visible alone, and nothing is lost."""
    assert p_value(drawn(Stable(confidence=1.0), MODEL), table().probabilities) > AGREES
    assert torch.allclose(Rule(Stable(confidence=1.0)).law, table().probabilities)


@pytest.mark.parametrize("confidence", [0.4, 0.5, 0.6, 0.8, 1.0])
def test_the_samples_are_as_near_the_data_as_stated(confidence):
    """KL(data || samples) is at most h for each token that comes beside another, on average."""
    rule = Rule(Stable(confidence=confidence, kl=10.0, history=1))
    doubt = 1 - confidence
    h = -confidence * math.log(confidence) + (
        doubt * math.log((STATES - 1) / doubt) if doubt else 0.0
    )
    assert kl_of_laws(table().probabilities, rule.law) <= h * rule.together + 1e-9


def test_a_certain_picture_takes_as_few_calls_as_the_history_asks_for():
    """Three tokens of which the network is sure at once: one, and the rest when it has kept its
    word ``history`` times."""
    say = torch.tensor([[9.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 9.0]])
    model = OracleModel(
        MODEL.process, Linear(), lambda z, _: CategoricalPrediction(say.expand(len(z), 3, 3))
    )
    for history in (1, 2):
        found = Stable(history=history).sample(model, Noise.of(0, 10))
        assert (found.calls == 1 + history).all()


def test_calm_is_counted_anew_after_every_move():
    """Only calls one after another count, of each token for itself; what is shown is hidden."""
    still = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], dtype=torch.float64).log()
    moved = still.flip(1)
    said = _Said(torch.full((1, 3), STATES))
    both = (torch.tensor([0, 0]), torch.tensor([0, 2]))
    seen = [said.calm(both, say, 0.01).tolist() for say in (still, still, moved, moved, moved)]
    assert seen == [[0, 0], [1, 1], [0, 0], [1, 1], [2, 2]]
    last = (torch.tensor([0]), torch.tensor([2]))
    assert said.calm(last, moved[1:], 0.01).tolist() == [3]


@given(st.lists(st.floats(-6, 6), min_size=2, max_size=6), st.integers(0, 9))
def test_the_divergence_is_that_of_the_two_distributions(logits, seed):
    """Against torch's; values that became impossible cost nothing, new ones infinitely much."""
    before = torch.tensor([logits], dtype=torch.float64).log_softmax(-1)
    generator = torch.Generator().manual_seed(seed)
    now = torch.randn(before.shape, generator=generator, dtype=torch.float64).log_softmax(-1)
    due = torch.nn.functional.kl_div(before, now, log_target=True, reduction="sum")
    assert float(divergence(now, before)) == pytest.approx(float(due), abs=1e-12)
    gone = now.clone()
    gone[0, 0] = -torch.inf
    gone = gone.log_softmax(-1)
    assert divergence(gone, now).isfinite().all()
    assert divergence(gone, gone).item() == pytest.approx(0.0, abs=1e-12)
    assert divergence(now, gone).item() == torch.inf

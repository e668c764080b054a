"""Entropy-bounded unmasking against the law of its rule, enumerated."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from elbowroom import CategoricalPrediction, DataSpec, Noise
from elbowroom.conformance.oracle import TableOracle
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.samplers.entropy_bounded import EntropyBounded
from elbowroom.plugins.schedules.masking import Cosine, Linear
from sampling_laws import DRAWS, STATES, TOKENS, OracleModel, divergence, p_value, table

AGREES, DIFFERS = 1e-3, 1e-6
SAMPLERS = [
    EntropyBounded(bound=0.0),
    EntropyBounded(bound=0.5),
    EntropyBounded(bound=0.7),
    EntropyBounded(bound=0.9),
    EntropyBounded(bound=1.2),
    EntropyBounded(bound=2.5),
    EntropyBounded(2, bound=0.6),  # the second call takes all that is left
]


def uneven() -> TableOracle:
    """The table with some states likelier: which token is surest then depends on what is seen."""
    random = torch.Generator().manual_seed(5)  # no two entropies within 0.01
    more = 1.2 * torch.randn(STATES**TOKENS, generator=random, dtype=torch.float64)
    return TableOracle(table().states, (table().probabilities.log() + more).softmax(0))


ROWS = list(zip(uneven().states.tolist(), uneven().probabilities.tolist(), strict=True))


class Denoiser:
    """The exact one or, ``told``, one that is bolder the more is visible: a model and a formula."""

    def __init__(self, schedule: Linear | Cosine, told: bool) -> None:
        self.schedule, self.told = schedule, told
        self.process = Masked().bind(DataSpec((TOKENS,), STATES))

    def model(self) -> OracleModel:
        """What samplers ask."""
        exact = uneven().predict(self.process)

        def bolder(z, level):
            return CategoricalPrediction(exact(z, level).logits * (0.5 + level.share[..., None]))

        return OracleModel(self.process, self.schedule, bolder if self.told else exact)

    def __call__(self, z: tuple[int, ...]) -> dict[int, list[float]]:
        """From the table alone: the probabilities of each hidden token, if so much is visible."""
        visible = max(sum(v != STATES for v in z) / TOKENS, self.schedule.eps)  # eps at t = 1
        power = 0.5 + visible if self.told else 1.0
        found = {}
        for k in (k for k in range(TOKENS) if z[k] == STATES):
            mass = [0.0] * STATES
            for x, p in ROWS:
                if all(v in (STATES, w) for v, w in zip(z, x, strict=True)):
                    mass[x[k]] += p
            bold = [m**power for m in mass]
            found[k] = [m / sum(bold) for m in bold]
        return found


def entropies(say: dict[int, list[float]]) -> dict[int, float]:
    return {k: -sum(a * math.log(a) for a in p) for k, p in say.items()}


def surest(say: dict[int, list[float]], bound: float) -> list[int]:
    """The rule as stated: least entropy first, while the sum without the largest keeps to it."""
    h = entropies(say)
    order = sorted(h, key=h.__getitem__)
    return [k for n, k in enumerate(order) if sum(h[other] for other in order[:n]) <= bound]


class Rule:
    """The law of the rule, by following every draw."""

    def __init__(self, sampler: EntropyBounded, denoiser: Denoiser) -> None:
        self.sampler, self.denoiser = sampler, denoiser
        self.law = torch.zeros(STATES**TOKENS, dtype=torch.float64)
        self.calls = 0.0  # the mean
        self.appear: dict[tuple[tuple[int, ...], int], list[int]] = {}  # by z and call
        self.follow((STATES,) * TOKENS, 1.0, 1)

    def follow(self, z, weight, call) -> None:
        if STATES not in z:
            self.law[z[0] * 9 + z[1] * 3 + z[2]] += weight
            return
        say = self.denoiser(z)
        due = list(say) if call == self.sampler.steps else surest(say, self.sampler.bound)
        self.calls += weight
        self.appear[z, call] = sorted(due)
        for values in itertools.product(range(STATES), repeat=len(due)):
            new, chance = list(z), weight
            for k, value in zip(due, values, strict=True):
                new[k] = value
                chance *= say[k][value]
            self.follow(tuple(new), chance, call + 1)


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("schedule", [Linear(), Cosine()], ids=str)
@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_samples_and_calls_are_those_of_the_rule(sampler, schedule, told):
    """Exactly its law and its mean calls, few tokens a call or many, whatever the schedule."""
    denoiser = Denoiser(schedule, told)
    rule, found = Rule(sampler, denoiser), sampler.sample(denoiser.model(), Noise.of(0, DRAWS))
    assert p_value(found.x, rule.law) > AGREES
    assert float(found.calls.double().mean()) == pytest.approx(rule.calls, abs=0.02)
    if not told:
        data = p_value(found.x, uneven().probabilities)
        assert data < DIFFERS if rule.calls < 2.9 else data > AGREES


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_every_call_reveals_the_tokens_of_the_rule(sampler, told):
    """Not one more or less, in any sample, from every state that is met; no visible one moves."""
    denoiser = Denoiser(Linear(), told)
    rule, met = Rule(sampler, denoiser), set()
    frames = list(sampler.frames(denoiser.model(), Noise.of(1, DRAWS)))
    walked = [frame.z.tolist() for frame in frames if frame.x is None]
    for call, (now, then) in enumerate(itertools.pairwise(walked), 1):
        for z, after in {(tuple(a), tuple(b)) for a, b in zip(now, then, strict=True)}:
            changed = [k for k in range(TOKENS) if z[k] != after[k]]
            assert changed == rule.appear.get((z, call), []), (call, z, after)
            met |= {(z, call)} if changed else set()
    assert met == set(rule.appear)


def test_the_rule_is_not_an_empty_one():
    """Each bound has a law of its own, and the level has its say in which tokens appear."""
    exact, told = Denoiser(Linear(), False), Denoiser(Linear(), True)
    for denoiser, apart in ((exact, (0.0, 0.5, 0.7, 1.2, 2.5)), (told, (0.5, 0.7, 0.9, 1.2, 2.5))):
        laws = [Rule(EntropyBounded(bound=bound), denoiser).law for bound in apart]
        assert all(divergence(a, b) > 0.005 for a, b in itertools.permutations(laws, 2))
    half = EntropyBounded(bound=0.5)
    assert Rule(half, exact).calls < 2.6 and Rule(half, told).calls == pytest.approx(3)


@pytest.mark.parametrize("bound", [0.5, 0.7, 0.9, 1.2, 2.5])
def test_the_samples_are_as_near_the_data_as_stated(bound):
    """KL(data || samples) is at most the bound for each call, by the exact denoiser's own law."""
    rule = Rule(EntropyBounded(bound=bound), Denoiser(Linear(), False))
    assert 0.01 < divergence(uneven().probabilities, rule.law) <= bound * rule.calls

"""Samplers of masked diffusion against exactly known laws."""

from __future__ import annotations

import itertools

import attrs
import pytest
import torch
from elbowroom import CategoricalPrediction, DataSpec, EvenGrid, Noise, Step
from elbowroom.plugins.conformance.oracle import every_state
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.samplers.ancestral import Ancestral
from elbowroom.plugins.samplers.confidence import Confidence
from elbowroom.plugins.samplers.corrected import Corrected
from elbowroom.plugins.samplers.first_hitting import FirstHitting
from elbowroom.plugins.samplers.grid import CosineGrid
from elbowroom.plugins.samplers.remask import Remask
from elbowroom.plugins.samplers.scattered import Scattered
from elbowroom.plugins.samplers.top_p import TopP, nucleus
from elbowroom.plugins.schedules.masking import Cosine, Linear, Polynomial
from hypothesis import given, strategies as st
from sampling_laws import (
    DRAWS,
    STATES,
    TOKENS,
    OracleModel,
    chain_law,
    counts,
    drawn,
    masked_model,
    p_value,
    path_law,
    path_p_value,
    table,
)

AGREES, DIFFERS = 1e-3, 1e-6  # p-values; the seeds are fixed, so these never flicker
EVERY = [
    Ancestral(6),
    Ancestral(6, skip=False),
    FirstHitting(),
    FirstHitting(2),
    TopP(6, p=0.6),
    Confidence(3),
    Scattered(2),
    Remask(6, eta=0.5),
    Remask(6, sigma="cap", eta=0.2),
    Remask(6, sigma="psi", eta=0.4),
    Corrected(3, corrections=2),
    Corrected(3, tokens=2),
]


# -- ancestral


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("schedule", [Cosine(), Linear(), Polynomial(exponent=3.0)])
@pytest.mark.parametrize("grid", [EvenGrid(), CosineGrid()], ids=["uniform", "cosine"])
def test_ancestral_samples_have_the_law_of_the_chain(schedule, grid, told):
    """Ancestral samples have exactly the law of the discrete-time chain, few steps or many."""
    model, sampler = masked_model(schedule, told=told), Ancestral(3, grid)
    assert p_value(drawn(sampler, model), chain_law(model, sampler.levels(model))) > AGREES


def path_p_values(model, sampler, right, **options):
    """How well z after each step agrees with the chain."""
    levels = sampler.levels(right)
    frames = sampler.frames(model, Noise.of(0, DRAWS))
    return [
        path_p_value(frame.z, path_law(right, levels, frame.step, **options))
        for frame in frames
        if frame.x is None
    ]


@pytest.mark.parametrize("told", [False, True])
def test_ancestral_paths_have_the_law_of_the_chain(told):
    """After each single step z has exactly the law of the chain, hidden tokens included."""
    model = masked_model(told=told)
    assert min(path_p_values(model, Ancestral(4, skip=False), model)) > AGREES


def test_ancestral_with_many_steps_samples_the_data():
    """With many steps and an exact denoiser the samples have the law of the data."""
    assert p_value(drawn(Ancestral(2000), masked_model(), 5000), table().probabilities) > AGREES


@attrs.frozen
class Hasty(Masked):
    """Reveals a little more than it should."""

    def reverse(self, z, prediction, step, noise):
        ahead = attrs.evolve(step.to, log_snr=step.to.log_snr + 0.1)
        return Masked.reverse(self, z, prediction, attrs.evolve(step, to=ahead), noise)


@attrs.frozen
class Sharp(Masked):
    """Draws values from a distribution that is too sharp."""

    def reverse(self, z, prediction, step, noise):
        sharper = CategoricalPrediction(1.1 * prediction.logits)
        return Masked.reverse(self, z, sharper, step, noise)


@pytest.mark.parametrize("process", [Hasty(), Sharp()])
def test_the_check_of_the_chain_notices_a_wrong_step(process):
    """A wrong reveal probability, or a wrong distribution of values, fails the check."""
    sampler, wrong = Ancestral(4, skip=False), masked_model(process=process)
    assert min(path_p_values(wrong, sampler, masked_model())) < DIFFERS


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 7, 64])
def test_event_driven_and_step_by_step_are_the_same_samples(steps, told):
    """Skipping steps in which nothing is revealed changes no sample, told the level or not."""
    model = masked_model(told=told)
    by_event, by_step = Ancestral(steps), Ancestral(steps, skip=False)
    assert torch.equal(drawn(by_event, model, 500), drawn(by_step, model, 500))


@pytest.mark.parametrize("told", [False, True])
def test_each_sample_is_shown_to_the_network_at_its_own_levels(told):
    """A sample sees the levels of its own events, not those of its neighbours in the batch."""
    lams = []

    def note(z, level):
        lams.append(level.log_snr.flatten())
        return exact(z, level)

    model = masked_model(told=told)
    exact = model._predict
    model._predict = note
    levels = Ancestral(20).levels(model).log_snr
    drawn(Ancestral(20), model, 50)
    assert torch.isin(torch.cat(lams), levels).all()
    assert len(lams[0].unique()) > 5  # first events come at different levels, in one call


def images(schedule):
    """8 x 8 tokens, a network that knows nothing."""
    process = Masked().bind(DataSpec((8, 8, 1), 17))
    return OracleModel(
        process, schedule, lambda z, _: CategoricalPrediction(torch.zeros(*z.shape, 17))
    )


@pytest.mark.parametrize(("schedule", "calls"), [(Cosine(), 55.2), (Linear(), 56.7)])
def test_calls_of_the_event_driven_form_are_as_few_as_expected(schedule, calls):
    """8 x 8 tokens in 256 steps take about 55 calls a sample, and every call is counted."""
    model = images(schedule)
    taken = Ancestral(256).sample(model, Noise.of(0, 1000)).calls.double()
    assert taken.mean().item() == pytest.approx(calls, abs=0.3)
    assert model.rows == taken.sum()


def test_the_longest_of_a_hundred_paths_takes_about_61_calls():
    """The batch is done when its longest path is: about 61 calls of 100 samples, not 256."""
    longest = [
        int(Ancestral(256).sample(images(Cosine()), Noise.of(seed, 100)).calls.max())
        for seed in range(10)
    ]
    assert sum(longest) / len(longest) == pytest.approx(61, abs=1)


def test_step_by_step_takes_a_call_for_each_step():
    """With skip: false every step is walked."""
    model = images(Cosine())
    calls = Ancestral(256, skip=False).sample(model, Noise.of(0, 4)).calls
    assert (calls >= 256).all()  # one more where a token is hidden to the end
    assert (calls <= 257).all()


# -- every one of them


@pytest.mark.parametrize("sampler", EVERY, ids=str)
@pytest.mark.parametrize("told", [False, True])
def test_samples_do_not_depend_on_the_batch_size(sampler, told):
    """A seed gives the same samples, whatever batches they are drawn in."""
    model = masked_model(told=told)
    whole = sampler.sample(model, Noise.of(3, 40))
    for size in (1, 7, 39):
        parts = [
            sampler.sample(model, Noise(3, torch.arange(40)[k : k + size], 40))
            for k in range(0, 40, size)
        ]
        assert torch.equal(torch.cat([part.x for part in parts]), whole.x)
        assert torch.equal(torch.cat([part.calls for part in parts]), whole.calls)


@pytest.mark.parametrize("sampler", EVERY, ids=str)
def test_another_seed_gives_other_samples(sampler):
    """The seed matters."""
    model = masked_model()
    assert not torch.equal(drawn(sampler, model, 40, seed=0), drawn(sampler, model, 40, seed=1))


@pytest.mark.parametrize("sampler", EVERY, ids=str)
def test_tokens_given_at_the_start_stay(sampler):
    """Given part of an example, samplers fill in the rest, and no token is left hidden."""
    model = masked_model()
    z = model.process.prior(Noise.of(0, 200))
    z[:, 1] = torch.arange(200) % STATES
    for frame in sampler.frames(model, Noise.of(0, 200), z=z):
        assert (frame.z[:, 1] == z[:, 1]).all()
    assert (frame.x[:, 1] == z[:, 1]).all()
    assert (frame.x < STATES).all()


@pytest.mark.parametrize("sampler", EVERY, ids=str)
def test_frames_are_the_path_of_the_samples(sampler):
    """Frames begin at the prior, do not change once given, and end with the samples."""
    model = masked_model()
    kept = [(frame, frame.z.clone()) for frame in sampler.frames(model, Noise.of(0, 10))]
    assert all(torch.equal(frame.z, z) for frame, z in kept)
    assert (kept[0][1] == model.process.mask).all()
    assert all(frame.x is None for frame, _ in kept[:-1])
    assert torch.equal(kept[-1][0].x, drawn(sampler, model, 10))


@pytest.mark.parametrize("sampler", EVERY, ids=str)
def test_samplers_say_what_they_need(sampler):
    """What a sampler needs is among the process's traits."""
    assert sampler.needs <= Masked.traits


# -- first hitting


@pytest.mark.parametrize("schedule", [Cosine(), Linear()])
def test_first_hitting_samples_the_data(schedule):
    """One token at a time with an exact denoiser: exactly the law of the data, without a grid."""
    assert p_value(drawn(FirstHitting(), masked_model(schedule)), table().probabilities) > AGREES


def test_the_check_of_first_hitting_notices_tokens_revealed_together():
    """Two calls for three tokens lose some of their dependence, and the check sees it."""
    assert p_value(drawn(FirstHitting(2), masked_model()), table().probabilities) < DIFFERS


def test_first_hitting_is_the_limit_of_many_steps():
    """Where no two tokens share a step, ancestral sampling gives the same samples."""
    model = masked_model()
    fine, limit = drawn(Ancestral(10_000), model, 300), drawn(FirstHitting(), model, 300)
    assert (fine == limit).all(1).double().mean() > 0.99


def test_first_hitting_asks_the_network_at_the_time_of_each_token():
    """The level shown at a token's event is the one at which its uniform is reached."""
    seen = []
    model = masked_model()
    exact = model._predict
    model._predict = lambda z, level: (seen.append(level.share.flatten()), exact(z, level))[1]
    noise = Noise.of(5, 1)
    FirstHitting().sample(model, noise)
    u = noise.uniform("reveal", (TOKENS,)).flatten().sort().values
    first = model.schedule.log_snr(torch.ones((), dtype=torch.float64)).sigmoid()
    expected = first + u * (1 - first)
    assert torch.allclose(torch.cat(seen[:TOKENS]), expected, rtol=1e-9)


@pytest.mark.parametrize("steps", [1, 10, 24, 63, 64, 500])
@pytest.mark.parametrize("hidden", [64, 17])
def test_first_hitting_takes_as_many_calls_as_steps_or_tokens(steps, hidden):
    """Exactly min(steps, hidden tokens) calls; a token hidden at the end would take one more."""
    model = images(Linear(eps=1e-12))
    z = torch.where(torch.arange(64) < hidden, model.process.mask, 0).view(1, 8, 8, 1)
    *_, end = FirstHitting(steps).frames(model, Noise.of(0, 20), z=z.expand(20, 8, 8, 1))
    assert end.calls.tolist() == [min(steps, hidden)] * 20


# -- top-p


@pytest.mark.parametrize(
    ("p", "kept"),
    [(0.5, [0]), (0.8, [0, 1]), (0.9, [0, 1, 2]), (0.98, [0, 1, 2, 3]), (1.0, range(5))],
)
def test_the_nucleus_of_known_logits(p, kept):
    """The nucleus agrees with the reference; equal logits are kept or dropped together."""
    logits = torch.tensor([[2.0, 1.0, 0.5, -1.0, -3.0], [0.0] * 5])
    cut = nucleus(logits, p)
    assert cut[0].isfinite().nonzero().flatten().tolist() == list(kept)
    assert cut[1].tolist() == [0.0] * 5


@given(st.lists(st.floats(-8, 8), min_size=1, max_size=12), st.floats(0.01, 0.999))
def test_the_nucleus_is_large_enough_and_no_larger(logits, p):
    """The nucleus holds at least p, and without its least likely values less than p."""
    given_logits = torch.tensor(logits, dtype=torch.float64)
    cut = nucleus(given_logits, p)
    chance, kept = given_logits.softmax(0), cut.isfinite()
    assert torch.equal(cut[kept], given_logits[kept])
    assert chance[kept].sum() >= p - 1e-9
    least = given_logits[kept].min()
    assert chance[given_logits > least].sum() <= p + 1e-9
    assert (given_logits[~kept] < least).all()


def test_top_p_samples_have_the_law_of_the_truncated_chain():
    """Top-p draws from the nucleus, and from the nucleus only; p = 1 is ancestral sampling."""
    model, sampler = masked_model(), TopP(3, p=0.7)
    x = drawn(sampler, model)
    law = chain_law(model, sampler.levels(model), change=lambda logits: nucleus(logits, 0.7))
    assert p_value(x, law) > AGREES
    assert p_value(x, chain_law(model, sampler.levels(model))) < DIFFERS
    assert torch.equal(drawn(TopP(3, p=1.0), model, 500), drawn(Ancestral(3), model, 500))


def test_top_p_sorts_the_vocabulary_only_where_tokens_are_revealed(monkeypatch):
    """No work as wide as the vocabulary is done for positions that stay hidden."""
    from elbowroom.plugins.samplers import top_p

    rows = []
    monkeypatch.setattr(
        top_p, "nucleus", lambda logits, p: (rows.append(len(logits)), nucleus(logits, p))[1]
    )
    TopP(64).sample(images(Cosine()), Noise.of(0, 10))
    assert sum(rows) == 10 * 64


# -- confidence


def confident_law(model) -> torch.Tensor:
    """The law of MaskGIT's rule at temperature 0, one token a step, by following every draw."""
    level = Confidence(3).levels(model).select(torch.zeros(1, dtype=torch.long))
    law = torch.zeros(STATES**TOKENS, dtype=torch.float64)
    paths = {(STATES,) * TOKENS: 1.0}
    for _ in range(TOKENS):
        after = {}
        for z, weight in paths.items():
            tensor = torch.tensor([z])
            chance = model.predict(tensor, level.over(tensor), None).logits.softmax(-1)[0]
            hidden = [k for k in range(TOKENS) if z[k] == STATES]
            for values in itertools.product(range(STATES), repeat=len(hidden)):
                sure = [chance[k, v].item() for k, v in zip(hidden, values, strict=True)]
                joint = weight * torch.tensor(sure).double().prod().item()
                best = max(range(len(hidden)), key=sure.__getitem__)
                new = list(z)
                new[hidden[best]] = values[best]
                after[tuple(new)] = after.get(tuple(new), 0.0) + joint
        paths = after
    for z, weight in paths.items():
        law[z[0] * 9 + z[1] * 3 + z[2]] += weight
    return law


def test_confidence_at_temperature_zero_has_the_law_of_its_rule():
    """The surest candidate stays at each step: exactly that law, which is not the data's."""
    model = masked_model(Linear())
    x = drawn(Confidence(TOKENS, temperature=0.0), model)
    assert p_value(x, confident_law(model)) > AGREES
    assert p_value(x, table().probabilities) < DIFFERS


def test_confidence_at_a_high_temperature_reveals_in_random_order():
    """Hot enough, the order does not depend on the candidates and the data's law comes out."""
    x = drawn(Confidence(TOKENS, temperature=1e6), masked_model(Linear()))
    # the last step is at temperature 0, when one token is left and there is nothing to choose
    assert p_value(x, table().probabilities) > AGREES


def test_confidence_hides_as_many_tokens_as_the_schedule_says():
    """After each step as many tokens are hidden as the schedule's share, whatever was drawn."""
    sampler, model = Confidence(16), images(Cosine())
    share = sampler.levels(model).noise_share
    for frame in sampler.frames(model, Noise.of(0, 5)):
        if frame.step < 16:
            hidden = (frame.z == 17).flatten(1).sum(1)
            assert (hidden == (64 * share[frame.step] / share[0]).round()).all()
    assert (frame.z < 17).all()
    assert (frame.calls <= 16).all()


def test_confidence_prefers_what_the_network_is_sure_of():
    """A token the network is sure of is revealed before one it is not."""
    process = Masked().bind(DataSpec((2,), 4))
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [9.0, 0.0, 0.0, 0.0]])
    model = OracleModel(
        process, Linear(), lambda z, _: CategoricalPrediction(logits.expand(len(z), 2, 4))
    )
    frames = list(Confidence(2, temperature=0.0).frames(model, Noise.of(0, 100)))
    assert ((frames[1].z != 4).double().mean(0) - torch.tensor([0.0, 1.0])).abs().max() < 0.02


# -- remask


def test_remasking_never_is_ancestral_sampling():
    """With sigma = 0 the samples are those of ancestral sampling, call for call."""
    for told in (False, True):
        model = masked_model(told=told)
        noise = Noise.of(0, 500)
        ancestral, remask = (
            Ancestral(7).sample(model, noise),
            Remask(7, eta=0.0).sample(model, noise),
        )
        assert torch.equal(remask.x, ancestral.x)
        assert torch.equal(remask.calls, ancestral.calls)


@pytest.mark.parametrize(
    "sampler",
    [
        Remask(4, eta=0.5),
        Remask(4, eta=1.0),
        Remask(4, sigma="cap", eta=0.3),
        Remask(5, eta=1.0, before=0.7, after=0.3),
        Remask(4, sigma="psi", eta=0.3),
        Remask(4, sigma="psi", eta=1.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("told", [False, True])
def test_remasked_samples_have_the_law_of_their_chain(sampler, told):
    """Samples have exactly the law of the chain that reveals and hides with ReMDM's rates."""
    model = masked_model(told=told)
    levels = sampler.levels(model)

    def sigma(i):
        a_t, a_s, t = levels.share[i], levels.share[i + 1], levels.t[i]
        if not sampler.after <= t <= sampler.before:
            return 0.0
        most = min(1.0, float((1 - a_s) / a_t))
        of = {"cap": min(sampler.eta, most), "rescale": sampler.eta * most}
        return {**of, "psi": sampler.eta * float(1 - a_s)}[sampler.sigma]

    x = drawn(sampler, model)
    assert p_value(x, chain_law(model, levels, sigma=sigma)) > AGREES
    assert min(path_p_values(model, sampler, model, sigma=sigma)) > AGREES


@pytest.mark.parametrize("eta", [0.0, 0.3, 1.0])
def test_psi_guesses_a_share_of_the_tokens_and_makes_them_noisy_anew(eta):
    """Hiding and revealing are those of a mixture of the reverse step and of q(z_s | x_hat)."""
    sampler = Remask(6, sigma="psi", eta=eta)
    levels = sampler.levels(masked_model()).unbind()
    for i, (level, to) in enumerate(itertools.pairwise(levels)):
        step = Step(torch.tensor([i]), level, to, levels[0], i)
        a_t, a_s, sigma = float(level.share), float(to.share), float(sampler.sigma_of(step))
        reveal = (1 - eta) * (a_s - a_t) / (1 - a_t) + eta * a_s
        assert sigma == pytest.approx(eta * (1 - a_s))
        assert (a_s - (1 - sigma) * a_t) / (1 - a_t) == pytest.approx(reveal)


def rates(sampler, model):
    """The shares of visible tokens hidden, and of hidden tokens revealed, in each step."""
    before = None
    for frame in sampler.frames(model, Noise.of(0, DRAWS)):
        if frame.x is None and before is not None:
            was, now = before == STATES, frame.z == STATES
            visible = max(1, int((~was).sum()))
            yield int((~was & now).sum()) / visible, int((was & ~now).sum()) / int(was.sum())
        before = frame.z


@attrs.frozen
class Timid(Remask):
    """Hides a little less than it should."""

    def sigma_of(self, step):
        return 0.9 * Remask.sigma_of(self, step)


def worst_rate(sampler):
    """By how many standard errors the rates of hiding and revealing miss those of sigma = 0.5."""
    model = masked_model()
    share = sampler.levels(model).share.tolist()
    worst = 0.0
    for (a_t, a_s), found in zip(itertools.pairwise(share), rates(sampler, model), strict=True):
        sigma = 0.5 * min(1.0, (1 - a_s) / a_t)
        due = sigma, (a_s - (1 - sigma) * a_t) / (1 - a_t)
        for rate, right, part in zip(found, due, (a_t, 1 - a_t), strict=True):
            if part > 0.01:
                error = (right * (1 - right) / (DRAWS * TOKENS * part)) ** 0.5
                worst = max(worst, abs(rate - right) / max(error, 1e-9))
    return worst


def test_remasking_hides_and_reveals_at_the_right_rates():
    """Each step hides and reveals as often as it should, and a wrong rate is noticed."""
    assert worst_rate(Remask(6, eta=0.5)) < 4
    assert worst_rate(Timid(6, eta=0.5)) > 6


def test_remasking_leaves_the_share_of_hidden_tokens_as_it_is():
    """At every level as many tokens are hidden as without remasking, on average."""
    sampler, model = Remask(12, eta=0.8), masked_model()
    share = sampler.levels(model).noise_share
    for frame in sampler.frames(model, Noise.of(0, DRAWS)):
        if frame.x is None:
            hidden = (frame.z == STATES).double().mean()
            assert hidden.item() == pytest.approx((share[frame.step] / share[0]).item(), abs=0.01)


def test_remasking_with_many_steps_samples_the_data():
    """Hiding tokens again does not change the law an exact denoiser leads to."""
    model = masked_model()
    x = drawn(Remask(400, sigma="cap", eta=0.02), model, 3000)
    assert p_value(x, table().probabilities) > AGREES


def test_every_state_can_be_hidden_and_found():
    """The helper's states and the counts agree on their order."""
    states = every_state((TOKENS,), STATES)
    assert all(counts(row[None])[k] == 1 for k, row in enumerate(states))

"""Two-sided likelihood, against every order of the tokens of a small model."""

from __future__ import annotations

import itertools
import logging
import math
import statistics

import attrs
import pytest
import torch
from elbowroom import DataSpec, ElbowroomError, Level, Noise, Subject
from elbowroom.contracts.dataset import Dataset
from elbowroom.contrib.orders import log_weight
from elbowroom.contrib.tangent import draws_error, from_above, from_below, scale_from_others
from elbowroom.contrib.two_sided import TwoSided
from elbowroom.plugins.conformance.oracle import TableOracle, every_state
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.schedules.gaussian import VPCosine
from elbowroom.plugins.schedules.masking import Cosine, Linear
from hypothesis import given, strategies as st

from tests.helpers.pictures import Rows

SPEC = DataSpec((3,), 3)
STATES = every_state((3,), 3)
WEIGHT = torch.exp(1.5 * torch.sin(1.0 + torch.arange(27.0, dtype=torch.float64) ** 1.3))
TABLE = TableOracle(STATES, WEIGHT / WEIGHT.sum())
BITS = 3 * math.log(2)  # nats in a bit a dimension


@attrs.frozen(eq=False)
class Table(Dataset):
    """Every split holds each state as often as its (rounded) probability says."""

    times: int = 200

    @property
    def spec(self):
        return SPEC

    def split(self, name):
        counts = (self.times * TABLE.probabilities).round().long()
        return Rows(STATES.repeat_interleave(counts, 0))


class Model:
    """Wrong in a way that depends on the order: marginals of the exact denoiser, sharpened."""

    def __init__(self, schedule, power=3.0, process=None):
        self.process, self.schedule = (process or Masked()).bind(SPEC), schedule
        self.exact = attrs.evolve(TABLE, power=power).predict(self.process)

    def predict(self, z, level, cond):
        return self.exact(z, level)


ENDS = {"whole": Cosine(eps=0.0), "cut": Linear(eps=0.1)}


def every_path(model, steps):
    """All ways to uncover three tokens: one u for each (cells of steps, or orders), and chances."""
    low, high = Level.of(
        torch.tensor([1.0, 0.0], dtype=torch.float64), model.schedule, model.process
    ).share.tolist()
    if steps is not None:
        t = torch.linspace(1, 0, steps + 1, dtype=torch.float64)
        edges = Level.of(t, model.schedule, model.process).share.tolist()
        cells = [(0.0, low), *itertools.pairwise(edges), (high, 1.0)]
        inner = [((a + b) / 2, b - a) for a, b in cells if b - a > 1e-12]
        found = list(itertools.product(inner, repeat=3))
        u = torch.tensor([[place for place, _ in path] for path in found], dtype=torch.float64)
        chance = torch.tensor([math.prod(width for _, width in path) for path in found])
        return u, chance.double()
    u, chance = [], []  # in continuous time only the order within the ends matters
    for where in itertools.product((-1, 0, 1), repeat=3):
        inside = [i for i in range(3) if where[i] == 0]
        part = math.prod({-1: low, 0: high - low, 1: 1 - high}[w] for w in where)
        if part < 1e-12:
            continue
        for order in itertools.permutations(range(len(inside))):
            place = {
                i: low + (high - low) * (k + 1) / 4 for i, k in zip(inside, order, strict=True)
            }
            ends = {-1: low / 2, 1: (1 + high) / 2}
            u.append([place.get(i, ends.get(where[i])) for i in range(3)])
            chance.append(part / math.factorial(len(inside)))
    return torch.tensor(u, dtype=torch.float64), torch.tensor(chance, dtype=torch.float64)


def every_weight(model, steps):
    """log w of every path for every state [P, 27], and the paths' chances [P]."""
    u, chance = every_path(model, steps)
    found = [log_weight(model, x.expand(len(u), 3), None, u, steps) for x in STATES]
    return torch.stack(found, 1), chance


def number(x):
    """The place of x [N, 3] among the states."""
    return (x * torch.tensor([9, 3, 1])).sum(1)


def likelihood(model, steps):
    """log p(x) of every state, [27]."""
    log_w, chance = every_weight(model, steps)
    return (log_w + chance.log()[:, None]).logsumexp(0)


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("steps", [None, 1, 2, 5])
def test_the_weights_are_a_distribution(ends, steps):
    """Paths have all the chance there is, and the likelihoods of all states sum to one."""
    model = Model(ENDS[ends])
    assert every_path(model, steps)[1].sum().item() == pytest.approx(1)
    assert likelihood(model, steps).exp().sum().item() == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_path_costs_the_bound_of_as_many_steps(ends, steps):
    """E[-log w] is the process's own prior KL, steps and reconstruction, for every state."""
    model, process = Model(ENDS[ends]), Masked().bind(SPEC)
    log_w, chance = every_weight(model, steps)
    t = torch.linspace(1, 0, steps + 1, dtype=torch.float64)
    levels = Level.of(t, model.schedule, process)
    due = process.prior_kl(STATES, levels.select(0))
    due = due + process.reconstruction(STATES, levels.select(steps), Noise.of(0, 27))
    hides = torch.tensor(list(itertools.product([False, True], repeat=3)))
    for i, x in itertools.product(range(steps), range(27)):
        at, to = levels.select(i), levels.select(i + 1)
        z = torch.where(hides, process.mask, STATES[x])
        probability = process.log_likelihood(z, STATES[x].expand_as(z), at).exp()
        kl = process.step_kl(STATES[x].expand_as(z), z, model.predict(z, at, None), at, to)
        due[x] += (probability * kl).nan_to_num().sum()
    torch.testing.assert_close(-(chance @ log_w), due, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("steps", [1, 3])
def test_the_likelihood_is_the_samplers(steps):
    """What the ancestral sampler draws is what the weights sum to, where the path is whole."""
    from elbowroom.plugins.samplers.ancestral import Ancestral

    model, count = Model(Cosine(eps=0.0)), 60_000
    drawn = Ancestral(steps).sample(model, Noise.of(0, count)).x
    seen = torch.bincount(number(drawn), minlength=27) / count
    p = likelihood(model, steps).exp()
    often = p * count > 20
    z = ((seen - p) / (p * (1 - p) / count).sqrt())[often]
    assert int(often.sum()) > 15
    assert float((z**2).mean()) == pytest.approx(1, abs=0.7)


@pytest.mark.parametrize("steps", [None, 2])
@pytest.mark.parametrize("ends", ENDS)
def test_both_sides_hold_for_every_state(ends, steps):
    """The mean over every pair of paths, for any scale: below is below and above is above."""
    model = Model(ENDS[ends])
    log_w, chance = every_weight(model, steps)  # [P, 27]
    log_p = likelihood(model, steps)
    first, second = (log_w[:, None].expand(-1, len(log_w), -1), log_w.expand(len(log_w), -1, -1))
    pairs = torch.stack([first, second]).flatten(1, 2)  # [2, P * P, 27]
    both = (chance[:, None] * chance).flatten()
    one = chance @ log_w
    below = both @ torch.stack([from_below(pairs[:, :, x]) for x in range(27)], 1)
    assert bool((one < below + 1e-9).all()) and bool((below < log_p + 1e-9).all())
    assert float((log_p - one).max()) > 0.02, "a model whose order says nothing tests nothing"
    for scale in (-1.0, 0.0, 0.7):
        shift = torch.full((pairs.shape[1],), scale, dtype=torch.float64)
        above = both @ torch.stack([from_above(pairs[:, :, x], shift) for x in range(27)], 1)
        assert bool((above > log_p - 1e-9).all())


@given(st.lists(st.floats(-6, 0), min_size=1, max_size=5), st.integers(2, 3), st.floats(-3, 3))
def test_both_sides_hold_whatever_is_averaged(values, draws, scale):
    """Every tuple of K draws of a w with equally likely values, and any tangent."""
    tuples = torch.tensor(list(itertools.product(values, repeat=draws)), dtype=torch.float64).T
    log_p = torch.tensor(values, dtype=torch.float64).logsumexp(0) - math.log(len(values))
    shift = torch.full((tuples.shape[1],), scale, dtype=torch.float64)
    assert from_below(tuples).mean() <= log_p + 1e-9
    assert from_above(tuples, shift).mean() >= log_p - 1e-9


@given(st.floats(-50, 0), st.integers(2, 6))
def test_where_orders_do_not_matter_both_sides_meet(log_p, draws):
    """A weight that does not vary is the likelihood, and the scale of its others is one."""
    log_w = torch.full((draws, 7), log_p, dtype=torch.float64)
    scale = scale_from_others(log_w)
    torch.testing.assert_close(scale, torch.zeros_like(scale), atol=1e-9, rtol=0)
    torch.testing.assert_close(from_above(log_w, scale), log_w[0])
    torch.testing.assert_close(from_below(log_w), log_w[0])


def test_the_scale_of_an_example_is_that_of_others():
    """Nothing of an example itself is in its scale, or w and psi would not be independent."""
    log_w = torch.randn(4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    before = scale_from_others(log_w)
    for changed in range(6):
        other = log_w.clone()
        other[0, changed] += 3
        after = scale_from_others(other)
        same = after == before
        assert bool(same[changed]) and bool(same[changed % 2 :: 2].all())
        assert not bool(same[1 - changed % 2 :: 2].any())
    assert scale_from_others(log_w[:, :1]).item() == 0


def test_weights_too_far_apart_stay_numbers():
    """What cannot be bounded is bounded badly, not by infinity."""
    log_w = torch.tensor([[0.0, 0.0], [-5000.0, 0.0]], dtype=torch.float64)
    assert bool(from_above(log_w, scale_from_others(log_w)).isfinite().all())


def measured(model=None, data=None, **options):
    subject = {k: options.pop(k) for k in ("seed", "batch_size") if k in options}
    metric = TwoSided(**{"limit": 1000, **options})
    metric.prepare(Subject(data or Table(), model or Model(Cosine(eps=0.0)), **subject))
    return metric.compute()


def truth(model, steps):
    """Bits/dim of the split, by enumeration."""
    log_p = likelihood(model, steps)
    return -float(log_p[number(Table().split("test").x)].mean()) / BITS


@pytest.mark.parametrize("steps", [None, 2])
def test_the_metric_encloses_the_enumerated_likelihood(steps):
    """Measured sides lie on their sides of the truth, within errors of the paths alone."""
    model = Model(Cosine(eps=0.0))
    due = truth(model, steps)
    found = [measured(model, steps=steps, paths=4, seed=k) for k in range(12)]
    values = [[one[name].value for name in one] for one in found]
    sides = torch.tensor(values, dtype=torch.float64)  # [12, 4]
    most, least, loose_by, loose_at_most = sides.mean(0).tolist()
    errors = (sides.std(0) / math.sqrt(12)).tolist()
    assert due - 0.1 < least < due + 3 * errors[1]
    assert due - 3 * errors[0] < most < due + 0.1
    log_w, chance = every_weight(model, steps)
    elbo = -float((chance @ log_w)[number(Table().split("test").x)].mean()) / BITS
    assert most + loose_by == pytest.approx(elbo, abs=4 * errors[0])
    assert least + loose_at_most == pytest.approx(most + loose_by, abs=1e-9)
    assert 0.01 < loose_by < elbo - due + 3 * errors[2]
    assert loose_at_most > elbo - due - 3 * errors[3]


def test_many_paths_meet_at_the_likelihood():
    """With K to infinity both sides are the truth."""
    model = Model(Cosine(eps=0.0))
    found = measured(model, paths=192, batch_size=4000)
    due = truth(model, None)
    low, high = (found[f"bits_per_dim_{side}"] for side in ("at_least", "at_most"))
    assert low.of["paths_error"] == high.of["paths_error"] < 1e-3
    for side in (low, high):
        assert side.value == pytest.approx(due, abs=2 * side.of["paths_error"])
    gaps = [found[f"bits_per_dim_slack_at_{side}"] for side in ("least", "most")]
    assert all(0.02 < one.value < 0.04 and one.standard_error < 0.003 for one in gaps)


def test_standard_errors_cover_what_other_examples_change():
    """On splits drawn anew, each side spreads by its standard error."""

    @attrs.frozen(eq=False)
    class Drawn(Table):
        seed: int = 0

        def split(self, name):
            draw = torch.Generator().manual_seed(self.seed)
            rows = torch.multinomial(TABLE.probabilities, 40, True, generator=draw)
            return Rows(STATES[rows])

    found = [measured(data=Drawn(seed=k), seed=k, paths=4) for k in range(60)]
    for name in found[0]:
        spread = torch.tensor([one[name].value for one in found]).std().item()
        told = sum(one[name].standard_error for one in found) / len(found)
        assert 0.75 < spread / told < 1.3, name


@pytest.mark.parametrize("steps", [None, 2])
def test_other_paths_move_both_sides_by_the_error_of_paths(steps):
    """For the same examples: what all paths say it is, and what both sides spread by over seeds."""
    model, sides = Model(Cosine(eps=0.0)), ("bits_per_dim_at_most", "bits_per_dim_at_least")
    found = [measured(model, paths=8, steps=steps, batch_size=8000, seed=k) for k in range(100)]
    told = sum(one[sides[0]].of["paths_error"] for one in found) / len(found)

    log_w, chance = every_weight(model, steps)
    x = number(Table().split("test").x)
    varies = chance @ ((log_w - likelihood(model, steps)).exp() - 1) ** 2  # [27] of w/p
    assert told == pytest.approx(
        math.sqrt(varies[x].sum() / 8) / len(x) / BITS, rel=0.12
    )  # a jackknife over 8 paths

    values = torch.tensor([[one[side].value for side in sides] for one in found])  # [100, 2]
    for spread in values.std(0).tolist():
        assert 0.8 < spread / told < 1.25
    due = truth(model, steps)
    outside = torch.stack([due - values[:, 0], values[:, 1] - due]).amax(0)
    assert float((outside > 2 * told).double().mean()) < 0.05
    assert "paths_error" not in found[0]["bits_per_dim_slack_at_least"].of


def test_the_batch_size_and_ranks_change_nothing():
    """Paths are keyed by example and number; parts of ranks are merged in their order."""
    whole = measured(steps=3, paths=3, batch_size=1000)
    for name, one in measured(steps=3, paths=3, batch_size=7).items():
        assert one.value == pytest.approx(whole[name].value, rel=1e-9)
    metric, states = TwoSided(steps=3, paths=3, limit=1000), []
    for rank in range(3):
        metric.prepare(Subject(Table(), Model(Cosine(eps=0.0)), batch_size=40, part=(rank, 3)))
        states.append(metric.state())
    metric.merge(states)
    for name, one in metric.compute().items():
        assert one.value == pytest.approx(whole[name].value, rel=1e-9)


def test_it_says_what_it_is_of():
    """Examples, paths, steps, and how much of the upper bound hangs on one example."""
    found = measured(steps=4, paths=2, limit=10)["bits_per_dim_at_least"]
    assert found.of["split"] == "10 test examples"
    assert (found.of["paths"], found.of["steps"]) == (2, 4)
    assert 0.1 <= found.of["heaviest"] < 1
    assert measured(limit=4)["bits_per_dim_at_most"].of["steps"] == "one token each"


def test_it_says_how_many_calls_it_takes_where_they_are_many(caplog):
    """64 x 64 x 3 tokens one by one are hours; as many as are asked for are not spoken of."""

    class Large(Table):
        @property
        def spec(self):
            return DataSpec((64, 64, 3), 3)

        def split(self, name):
            return Rows(torch.zeros(128, 64, 64, 3, dtype=torch.long))

    model = Model(Cosine(eps=0.0))
    with caplog.at_level(logging.INFO, "elbowroom"):
        TwoSided(steps=64).prepare(Subject(Large(), model, batch_size=256))
        assert not caplog.records
        TwoSided().prepare(Subject(Large(), model, batch_size=256))
    (said,) = (record.message for record in caplog.records)
    assert said.startswith("two-sided: 49,152 network calls, 12,288 for each of 4 batches")
    assert "steps" in said and "limit" in said


def test_what_it_cannot_bound_it_refuses():
    """No model, no tokens that hide, no examples."""

    class Empty(Table):
        def split(self, name):
            return Rows(STATES[:0])

    with pytest.raises(ElbowroomError, match="no model"):
        TwoSided().prepare(Subject(Table()))
    with pytest.raises(ElbowroomError, match="Gaussian has no mask state"):
        TwoSided().prepare(Subject(Table(), Model(VPCosine(), process=Gaussian())))
    with pytest.raises(ElbowroomError, match="empty"):
        TwoSided().prepare(Subject(Empty(), Model(Cosine())))


@pytest.mark.parametrize("draws", [2, 4, 8])
@pytest.mark.parametrize("sd", [0.3, 2.0])
def test_the_error_of_draws_is_the_std_over_repetitions(draws, sd):
    """Of the mean over examples of log mean w, with few draws and weights far apart too."""
    torch.manual_seed(0)
    log_w = sd * torch.randn(400, draws, 40, dtype=torch.float64)
    true = torch.stack([from_below(one).mean() for one in log_w]).std()
    told = statistics.fmean(draws_error(one) for one in log_w)
    assert 0.9 < told / float(true) < 1.25

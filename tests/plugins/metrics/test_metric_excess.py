"""The excess over the optimum, against enumeration and known entropies."""

from __future__ import annotations

import itertools
import json
import math

import attrs
import pytest
import torch
from elbowroom import (
    Batch,
    CategoricalPrediction,
    Dataset,
    DataSpec,
    ElbowroomError,
    Level,
    Noise,
    RealPrediction,
    Subject,
)
from elbowroom.conformance.oracle import TableOracle, every_state
from elbowroom.contrib.uniform import Uniform
from elbowroom.plugins.datasets.toy import CoupledTriple, IndependentBits
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.metrics import optimum as module
from elbowroom.plugins.metrics.bpd import BitsPerDim
from elbowroom.plugins.metrics.excess import Excess
from elbowroom.plugins.metrics.optimum import Optimum
from elbowroom.plugins.metrics.sampled_optimum import SampledOptimum
from elbowroom.plugins.schedules.gaussian import VPCosine
from elbowroom.plugins.schedules.masking import Cosine

from tests.helpers.pictures import Rows

TOY = CoupledTriple()
TABLE = TableOracle(TOY.states, TOY.probabilities)
BITS = 3 * math.log(2)  # nats in a bit a dimension
PROCESSES = {
    "masked": (Masked(), Cosine(eps=0.0)),
    "gaussian": (Gaussian(), VPCosine(eps=1e-3)),
    "uniform": (Uniform(), Cosine(eps=1e-3)),
}


class Model:
    """A process with a denoiser that is known."""

    def __init__(self, process, schedule, predict=None, spec=TOY.spec, table=TABLE):
        self.process, self.schedule = process.bind(spec), schedule
        self.known = predict or table.predict(self.process)

    def predict(self, z, level, cond):
        return self.known(z, level)


def clueless(z, level):
    """Every value as likely as the other."""
    return CategoricalPrediction(torch.zeros(*z.shape, 3))


def prepared(model, data=TOY, **options):
    subject = {k: options.pop(k) for k in ("seed", "batch_size", "part") if k in options}
    metric = Excess(**options)
    metric.prepare(Subject(data, model, **{"batch_size": 1000, **subject}))
    return metric


@pytest.mark.parametrize("name", PROCESSES)
def test_the_optimum_has_no_excess(name):
    """The exact denoiser loses nothing beyond itself, in any cell and for every look."""
    metric = prepared(Model(*PROCESSES[name]), levels=6, looks=40)
    curve = metric.details()
    assert max(map(abs, curve["excess"])) < 1e-5 and max(curve["error"]) < 1e-5
    assert sum(curve["optimum"]) > 0.2


def test_the_whole_excess_is_the_bound_less_the_entropy():
    """Knowing nothing costs log V, so what it loses is log V less the entropy."""
    metric = prepared(Model(*PROCESSES["masked"], clueless), levels=4, looks=16_000)
    found = metric.compute()["excess_bits_per_dim"]
    due = math.log2(3) - TOY.entropy / BITS
    assert due > 0.3
    assert found.value == pytest.approx(due, abs=4 * found.standard_error)
    assert found.standard_error < 0.02


def exact_curve(model, cells, points=200):
    """Bits/dim in each cell of the even cut of t, from 1 to 0, by enumeration: [2, cells]."""
    process, hides = model.process, torch.tensor(list(itertools.product([0, 1], repeat=3))) == 1
    t = 1 - (torch.arange(cells * points, dtype=torch.float64) + 0.5) / (cells * points)
    levels, best = Level.of(t, model.schedule, process), TABLE.predict(process)
    found = torch.zeros(2, len(t), dtype=torch.float64)
    hidden, share = hides.sum(1), levels.share[:, None]
    chance = share ** (3 - hidden) * (1 - share) ** hidden  # [t, 8]
    for x, p in zip(TOY.states, TOY.probabilities, strict=True):
        z = torch.where(hides, process.mask, x)
        for k, predict in enumerate((model.known, best)):
            plain = process.plain_loss(x.expand_as(z), z, predict(z, levels.select(0)), None)
            found[k] += p * (chance @ plain.sum(1).double())
    return (levels.elbo_weight * found).view(2, cells, points).mean(2) / (cells * BITS)


def test_every_cell_is_what_enumeration_says_within_its_error():
    """A tempered network loses in each cell what summing over data and masks gives."""
    tempered = attrs.evolve(TABLE, power=0.4).predict(Masked().bind(TOY.spec))
    model, cells = Model(*PROCESSES["masked"], tempered), 8
    due = exact_curve(model, cells)
    z = []
    for seed in range(8):
        curve = prepared(model, levels=cells, looks=200, seed=seed).details()
        excess, error = (torch.tensor(curve[key]).double() for key in ("excess", "error"))
        z.append((excess - (due[0] - due[1])) / error)
        torch.testing.assert_close(
            torch.tensor(curve["network"]).double(), due[0], rtol=0.5, atol=0
        )
    assert float(torch.stack(z).square().mean()) == pytest.approx(1, abs=0.5)
    assert abs(float(torch.stack(z).mean())) < 0.4


def test_gaussian_excess_is_the_difference_of_two_bounds():
    """A network that always says the mean, against the exact one, by bpd and by the curve."""
    spec, process, schedule = TOY.spec, Gaussian(), VPCosine(log_snr_max=3.0)
    mean = (TOY.probabilities[:, None] * process.bind(spec).encode(TOY.states)).sum(0).float()
    wrong = Model(process, schedule, lambda z, at: RealPrediction(z, at, given_x=mean.expand_as(z)))
    bounds = []
    for model in (wrong, Model(process, schedule)):
        metric = BitsPerDim(split="validation", looks=4)
        metric.prepare(Subject(TOY, model, batch_size=20_000))
        bounds.append(metric.compute()["bits_per_dim_diffusion"].value)
    found = prepared(wrong, looks=1000).compute()["excess_bits_per_dim"]
    assert found.value == pytest.approx(bounds[0] - bounds[1], abs=4 * found.standard_error)
    assert found.standard_error < 0.03 * found.value


@pytest.mark.parametrize("lam", [-4.0, -1.0, 0.0, 2.0, 5.0])
def test_the_optimal_loss_has_the_closed_form_of_the_mean(lam):
    """E|x|^2 - E|E[x|z]|^2, worked out by quadrature, is what the optimum loses."""
    process = Gaussian().bind(DataSpec((1,), 2))  # values -0.5 and 0.5
    p = torch.tensor([0.3, 0.7], dtype=torch.float64)
    best = Optimum(torch.tensor([[0], [1]]), p)
    z = torch.linspace(-12, 12, 20_001, dtype=torch.float64)[:, None]
    at = Level.at(torch.full((len(z), 1), lam).double(), process)
    x = torch.tensor([-0.5, 0.5], dtype=torch.float64)
    density = torch.stack(
        [process.log_likelihood(z, one.expand_as(z), at).exp() for one in x], 1
    )  # [Z, 2]
    dz = float(z[1] - z[0])
    prediction = best.predict(process, z, at, None)
    closed = (p * x**2).sum() - (density @ p * prediction.x[:, 0] ** 2).sum() * dz
    lost = sum(
        p[k]
        * (density[:, k] * process.plain_loss(x[k].expand_as(z), z, prediction, at)[:, 0]).sum()
        for k in (0, 1)
    )
    assert float(lost * dz) == pytest.approx(float(closed) * math.exp(lam) / 2, rel=1e-6, abs=1e-10)


def least_loss(optimum, process, level):
    """L* of a table, by enumeration of masks."""
    x, hides = optimum.states, torch.tensor(list(itertools.product([0, 1], repeat=2))) == 1
    z = torch.where(hides[:, None], process.mask, x).flatten(0, 1)  # [4 S, 2]
    x, at = x.repeat(4, 1), Level.at(torch.full((len(z), 1), level).double(), process)
    chance = process.log_likelihood(z, x, at).exp()
    plain = process.plain_loss(x, z, optimum.predict(process, z, at, None), at).sum(1)
    p = (optimum.probabilities / optimum.probabilities.sum()).repeat(4)
    return float((p * chance * plain).sum())


@pytest.mark.parametrize("level", [-3.0, 0.0, 2.0])
def test_the_best_loss_on_examples_rises_to_the_best_loss_of_all(level):
    """Over every possible set of n examples: never above L*(q), and closer with each one."""
    process, states = Masked().bind(DataSpec((2,), 2)), every_state((2,), 2)
    p = torch.tensor([0.4, 0.1, 0.2, 0.3], dtype=torch.float64)
    means = []
    for n in (1, 2, 3, 4):
        sets = list(itertools.product(range(4), repeat=n))
        found = [Optimum.of_examples(Batch(states[list(rows)]), "cpu") for rows in sets]
        loss = torch.tensor([least_loss(one, process, level) for one in found]).double()
        means.append(float(p[torch.tensor(sets)].prod(1) @ loss))
    assert means[0] == pytest.approx(0, abs=1e-9)
    due = least_loss(Optimum(states, p), process, level)
    assert all(a < b - 1e-4 for a, b in itertools.pairwise([*means, due]))


@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.parametrize("at_once", [1, 2**22])
def test_what_a_posterior_expects_to_lose_is_the_mean_of_what_it_loses(name, at_once, monkeypatch):
    """By variance or by values, the same as by every state in turn."""
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    process, best = PROCESSES[name][0].bind(TOY.spec), Optimum(TOY.states, TOY.probabilities)
    x = process.encode(TOY.states[:9])
    level = Level.at(torch.linspace(-3, 3, 9, dtype=torch.float64), process).over(x)
    z = process.corrupt(x, level, Noise.of(0, 9))
    posterior = best.posterior(process, z, level, None)
    due = torch.zeros(z.shape, dtype=torch.float64)
    for state, p in zip(process.encode(TOY.states), posterior.T, strict=True):
        lost = best.lost(process, posterior, state.expand_as(z), z, level).double()
        due += torch.where(p > 0, p, 0)[:, None] * lost.where(p[:, None] > 0, 0)
    assert float(due.sum()) > 0.5
    found = best.expected(process, posterior, z, level).double()
    torch.testing.assert_close(found, due, rtol=1e-4, atol=1e-5)


EVERY = TOY.states[[0, 1, 4, 9, 13, 17, 22]]


def every_z(process):
    """All z there can be [Z, *D], each with its share of an integral over z."""
    if "real" in process.traits:
        z = torch.linspace(-12, 12, 3001, dtype=torch.float64).view(-1, 1)
        return z, float(z[1] - z[0])
    return every_state((3,), 3 + ("absorbing" in process.traits)), 1.0


def expected_loss(process, sample, level, plain_loss):
    """The mean over a sample's examples and all z of a loss (x, z, level, which example)."""
    z, share = every_z(process)
    own = torch.arange(len(sample)).repeat_interleave(len(z))
    z, x = z.repeat(len(sample), 1), process.encode(sample)[own]
    at = Level.at(torch.full((len(z), 1), level).double(), process)
    chance = process.log_likelihood(z, x, at).double().exp() * share
    can = chance > 1e-30
    x, z, own, at = x[can], z[can], own[can], at.select(can.nonzero()[:, 0])
    return float((chance[can] * plain_loss(x, z, at, own).flatten(1).sum(1)).sum()) / len(sample)


def estimated(process, sample, total, level):
    best = SampledOptimum(Optimum.of_examples(Batch(sample), "cpu"), total)
    return expected_loss(
        process, sample, level, lambda x, z, at, own: best.plain_loss(process, x, z, at, None, own)
    )


def exact(process, sample, level):
    best = Optimum.of_examples(Batch(sample), "cpu")
    return expected_loss(
        process, sample, level, lambda x, z, at, _: best.plain_loss(process, x, z, at, None)
    )


@pytest.mark.parametrize("level", [-3.0, -1.0, 0.0])
@pytest.mark.parametrize("name", PROCESSES)
def test_some_examples_tell_of_the_optimum_of_all(name, level):
    """Over every draw of n of the N: nearer than the n alone, and exact with all."""
    spec, every = (
        (DataSpec((1,), 40), torch.tensor([[0], [3], [4], [11], [17], [30], [39]]))
        if name == "gaussian"
        else (TOY.spec, EVERY)
    )
    process = PROCESSES[name][0].bind(spec)
    due = exact(process, every, level)
    assert estimated(process, every, 7, level) == pytest.approx(due, rel=1e-5)
    for n in (3, 5):
        draws = [every[list(rows)] for rows in itertools.combinations(range(7), n)]
        alone = sum(exact(process, one, level) for one in draws) / len(draws)
        found = sum(estimated(process, one, 7, level) for one in draws) / len(draws)
        assert alone < due and abs(found - due) < 0.7 * (due - alone)


@pytest.mark.parametrize("label", [0, 1, 2])
def test_those_drawn_stand_for_all_of_their_label(label):
    """Over every draw that has the one z was made from: as many as there are, on average."""
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 2])
    mine = int((labels == label).nonzero()[0])
    sums = []
    for others in itertools.combinations([k for k in range(7) if k != mine], 3):
        rows = torch.tensor([mine, *others])
        drawn = Optimum(EVERY[rows], torch.ones(4).double(), labels[rows])
        counts = SampledOptimum(drawn, 7)._counts(torch.tensor([0]))
        assert counts[0, 0] == 1
        sums.append(float(counts[0, labels[rows] == label].sum()))
    assert sum(sums) / len(sums) == pytest.approx(int((labels == label).sum()))


def test_one_example_tells_nothing_of_the_others():
    with pytest.raises(ElbowroomError, match="limit: 2"):
        prepared(Model(*PROCESSES["masked"], clueless), Pictures(9), split="train", limit=1)


@attrs.frozen(eq=False)
class Pictures(Dataset):
    """Nobody knows their distribution: draws of the toy's, with or without labels."""

    count: int = 60
    labelled: bool = False

    @property
    def spec(self):
        return attrs.evolve(TOY.spec, classes=3 if self.labelled else None)

    def split(self, name):
        batch = TOY.split(name).take(torch.arange(self.count))
        return Rows(batch.x, batch.x[:, 0] if self.labelled else None)


def test_against_training_examples_it_is_at_most():
    """On other examples above the true excess; on the same ones the loss above their entropy."""
    model = Model(*PROCESSES["masked"], clueless)
    true = math.log2(3) - TOY.entropy / BITS
    other = prepared(model, Pictures(200), looks=500, split="test").compute()
    assert other.keys() == {"excess_bits_per_dim_at_most"}
    found = other["excess_bits_per_dim_at_most"]
    assert found.value > true - 3 * found.standard_error
    assert found.of["against"] == "200 train examples"

    own = prepared(model, Pictures(60), looks=2000, split="train")
    found, x = own.compute()["excess_bits_per_dim"], Pictures(60).split("train").x
    share = torch.unique(x, dim=0, return_counts=True)[1] / 60
    entropy = float(torch.special.entr(share).sum()) / BITS
    assert found.value == pytest.approx(math.log2(3) - entropy, abs=4 * found.standard_error)
    assert sum(own.details()["optimum"]) == pytest.approx(entropy, rel=0.05)


@attrs.frozen(eq=False)
class Drawn(Dataset):
    """Every split is drawn anew, and so few that looks repeat them."""

    seed: int
    known: bool
    count: int = 30

    @property
    def spec(self):
        return TOY.spec

    def split(self, name):
        draw = torch.Generator().manual_seed(1000 * self.seed + len(name))
        return Rows(
            TOY.states[torch.multinomial(TOY.probabilities, self.count, True, generator=draw)]
        )

    def distribution(self):
        return TOY.distribution() if self.known else None


def by_halves(z, level):
    """A guess that suits some values far better than others."""
    return CategoricalPrediction(torch.tensor([2.0, 0.0, -2.0]).expand(*z.shape, 3))


@pytest.mark.parametrize("known", [True, False])
def test_standard_errors_cover_what_other_examples_change(known):
    """On splits drawn anew the excess, and that of each cell, spreads by its standard error."""
    model, found, curves = Model(*PROCESSES["masked"], by_halves), [], []
    for seed in range(80):
        metric = prepared(model, Drawn(seed, known), levels=4, looks=120, seed=seed)
        found += metric.compute().values()
        curves.append(metric.details())
    spread = torch.tensor([one.value for one in found]).std().item()
    told = sum(one.standard_error for one in found) / len(found)
    assert 0.8 < spread / told < 1.25
    for spread, told in zip(
        torch.tensor([one["excess"] for one in curves]).std(0),
        torch.tensor([one["error"] for one in curves]).mean(0),
        strict=True,
    ):
        assert 0.75 < spread / told < 1.3


def test_a_single_example_says_nothing_of_others():
    """There is a figure, and no error of it."""
    metric = prepared(Model(*PROCESSES["masked"], clueless), Drawn(0, True, 1), levels=2, looks=20)
    assert metric.compute()["excess_bits_per_dim"].standard_error is None
    assert metric.details()["error"] == [None, None]


def test_fewer_training_examples_say_less():
    """``limit`` takes some of them: a looser bound, never a wrong one."""
    model = Model(*PROCESSES["masked"], clueless)
    totals = [
        prepared(model, Pictures(1000), looks=500, limit=limit).compute() for limit in (3, 30, 1000)
    ]
    values = [one["excess_bits_per_dim_at_most"].value for one in totals]
    assert values[0] > values[1] + 0.05 > values[2] + 0.05
    assert totals[0]["excess_bits_per_dim_at_most"].of["against"] == "3 train examples"


@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.parametrize("labelled", [False, True])
def test_more_training_examples_than_the_limit_are_estimated(name, labelled):
    """The figure says from how many, and the optimum loses more than that of those alone."""
    data, options = Pictures(60, labelled), {"looks": 200, "split": "train", "limit": 9}
    metric = prepared(Model(*PROCESSES[name], spec=data.spec), data, **options)
    found = metric.compute()["excess_bits_per_dim"]
    assert found.of["against"] == "60 train examples, estimated from 9"
    of_all = sum(metric.details()["optimum"])
    metric._of_all = metric._bits = None
    assert of_all > sum(metric.details()["optimum"])


def test_a_label_is_known_to_the_optimum_too():
    """Given the first value nothing of it is lost, and the figure says what it is given."""
    data = Pictures(60, labelled=True)
    seen = {}

    class Told(Model):
        def predict(self, z, level, cond):
            seen["y"] = cond
            return self.known(z, level)

    model = Told(*PROCESSES["masked"], clueless, spec=data.spec)
    metric = prepared(model, data, looks=400, split="train")
    assert metric.compute()["excess_bits_per_dim"].of["given"] == "the label"
    assert seen["y"] is not None
    blind = prepared(Model(*PROCESSES["masked"], clueless), Pictures(60), looks=400, split="train")
    share = torch.bincount(data.split("train").y) / 60
    told = float(torch.special.entr(share).sum()) / BITS
    less = sum(blind.details()["optimum"]) - sum(metric.details()["optimum"])
    assert less == pytest.approx(told, rel=0.25)


@pytest.mark.parametrize("tells", [False, True])
def test_a_distribution_of_labelled_data_is_used_if_it_tells_labels(tells):
    """Otherwise a network that is told the label would do better than the best possible."""

    @attrs.frozen(eq=False)
    class Labelled(Pictures):
        def distribution(self):
            known = TOY.distribution()
            return (*known, TOY.states[:, 0]) if tells else known

    data = Labelled(60, labelled=True)
    first = TOY.states[:, 0]
    given = [
        TableOracle(TOY.states[first == y], p / p.sum())
        for y, p in ((y, TOY.probabilities[first == y]) for y in range(3))
    ]

    class Told(Model):
        """The exact denoiser given the label."""

        def predict(self, z, level, cond):
            logits = torch.stack([one.predict(self.process)(z, level).logits for one in given])
            return CategoricalPrediction(logits[cond, torch.arange(len(z))])

    metric = prepared(Told(*PROCESSES["masked"], spec=data.spec), data, levels=6, looks=100)
    ((name, found),) = metric.compute().items()
    if tells:
        assert (name, found.of["against"]) == ("excess_bits_per_dim", "the distribution")
        assert max(map(abs, metric.details()["excess"])) < 1e-5
    else:
        assert name == "excess_bits_per_dim_at_most" and found.value > -3 * found.standard_error
        assert found.of["against"] == "60 train examples"


@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.parametrize("at_once", [1, 50, 2**22])
def test_the_optimum_is_the_oracle_however_it_is_split(name, at_once, monkeypatch):
    """Posteriors and predictions in parts are those of the conformance kit's oracle."""
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    process = PROCESSES[name][0].bind(TOY.spec)
    x = process.encode(TOY.states[:9])
    level = Level.at(torch.linspace(-3, 3, 9, dtype=torch.float64), process).over(x)
    z = process.corrupt(x, level, Noise.of(0, 9))
    best = Optimum(TOY.states, TOY.probabilities)
    found, due = best.predict(process, z, level, None), TABLE.predict(process)(z, level)
    torch.testing.assert_close(
        best.posterior(process, z, level, None),
        TABLE.posterior(process, z, level),
        rtol=1e-5,
        atol=1e-6,
    )
    if name == "gaussian":
        torch.testing.assert_close(found.x, due.x, rtol=1e-5, atol=1e-5)
    else:
        torch.testing.assert_close(found.logits.exp(), due.logits.exp(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.parametrize("at_once", [1, 50, 2**22])
def test_the_least_loss_is_that_of_the_oracle_however_it_is_split(name, at_once, monkeypatch):
    """By the chance of the true value alone, by rows of a table or by the mean."""
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    process = PROCESSES[name][0].bind(TOY.spec)
    x = process.encode(TOY.states[TOY.probabilities.argsort()[-9:]])
    level = Level.at(torch.linspace(-3, 3, 9, dtype=torch.float64), process).over(x)
    z = process.corrupt(x, level, Noise.of(0, 9))
    found = Optimum(TOY.states, TOY.probabilities).plain_loss(process, x, z, level, None)
    due = process.plain_loss(x, z, TABLE.predict(process)(z, level), level)
    assert float(due.sum()) > 0.5
    torch.testing.assert_close(found.double(), due.double(), rtol=1e-5, atol=1e-6)


def test_large_pictures_need_no_table_of_values_where_tokens_are_hidden(monkeypatch):
    """A chance for each token is enough; a process that needs each value's says how many."""
    states = torch.stack([torch.full((64, 64, 3), value) for value in (7, 7, 200)])
    best, spec = Optimum(states, torch.ones(3).double()), DataSpec((64, 64, 3), 256)
    with monkeypatch.context() as patch:
        patch.delattr(Optimum, "_marginals")
        process = Masked().bind(spec)
        z = torch.full((1, 64, 64, 3), process.mask)
        level = Level.at(torch.zeros(1).double(), process).over(z)
        lost = best.plain_loss(process, states[:1], z, level, None)
    torch.testing.assert_close(lost, torch.full_like(lost, math.log(3 / 2)))
    monkeypatch.setattr(module, "_MOST", 64 * 64 * 3 * 256 - 1)
    with pytest.raises(ElbowroomError, match="3,145,728 numbers for one example"):
        best.plain_loss(Uniform().bind(spec), states[:1], states[:1], level, None)


def test_gaussian_likelihoods_by_products_are_the_process_s_own():
    """Up to what the data have no part in, with a level of its own for each element too."""
    process, draw = Gaussian().bind(DataSpec((4, 5), 256)), torch.Generator().manual_seed(0)
    states = torch.randint(256, (6, 4, 5), generator=draw)
    x, best = process.encode(states).double(), Optimum(states, torch.ones(6).double())
    for lam in (torch.full((6, 1, 1), 12.0), torch.linspace(-9, 9, 120).view(6, 4, 5)):
        level = Level.at(lam.double(), process)
        z = process.corrupt(x, level, Noise.of(0, 6))
        due = [process.log_likelihood(z, one.expand_as(z), level) for one in x]
        torch.testing.assert_close(
            best.posterior(process, z, level, None), torch.stack(due, 1).softmax(1)
        )


@pytest.mark.parametrize("data", [TOY, Pictures(50)])
def test_the_batch_size_and_ranks_change_nothing(data):
    """Looks are keyed by their number; parts of ranks are merged in their order."""
    model = Model(*PROCESSES["masked"], clueless)
    whole = prepared(model, data, levels=5, looks=20).details()
    small = prepared(model, data, levels=5, looks=20, batch_size=7).details()
    parts = [prepared(model, data, levels=5, looks=20, batch_size=9, part=(k, 3)) for k in range(3)]
    states = [one.state() for one in parts]
    parts[0].merge(states)
    for other in (small, parts[0].details()):
        for name, values in whole.items():
            assert other[name] == pytest.approx(values, rel=1e-6, abs=1e-9)


def test_its_curve_is_plain_data_from_noise_to_data():
    """It goes into the evaluation's file as it is."""
    curve = prepared(Model(*PROCESSES["gaussian"]), levels=4, looks=2).details()
    assert json.loads(json.dumps(curve)) == curve
    assert curve["log_snr"] == sorted(curve["log_snr"]) and len(curve["excess"]) == 4


def test_what_it_cannot_measure_it_refuses():
    """No model, no examples to be asked about, none to know."""

    @attrs.frozen(eq=False)
    class Without(Pictures):
        empty: str = "train"

        def split(self, name):
            rows = super().split(name)
            return Rows(rows.x[:0]) if name == self.empty else rows

    model = Model(*PROCESSES["masked"])
    with pytest.raises(ElbowroomError, match="no model"):
        Excess().prepare(Subject(TOY))
    for empty in ("train", "validation"):
        with pytest.raises(ElbowroomError, match=f"the {empty} split is empty"):
            Excess().prepare(Subject(Without(empty=empty), model))


def test_toys_know_their_distribution_and_pictures_do_not():
    """States and probabilities, or nothing."""
    states, p = IndependentBits().distribution()
    assert states.shape == (16, 4) and float(p.sum()) == pytest.approx(1)
    assert Pictures().distribution() is None

"""Bits per dimension where the distribution is known: an exact denoiser's bound is the entropy."""

from __future__ import annotations

import math

import attrs
import pytest
import torch
from elbowroom import DataSpec
from elbowroom.contracts.dataset import Dataset
from elbowroom.contracts.path import Shared
from elbowroom.contracts.time_sampler import stratified
from elbowroom.errors import ElbowroomError
from elbowroom.objective.loss import Bound
from elbowroom.plugins.conformance import check_schedule
from elbowroom.plugins.conformance.oracle import TableOracle, every_state
from elbowroom.plugins.evaluation import bound_estimator as module
from elbowroom.plugins.evaluation.bound_estimator import HalfEven, standard_error
from elbowroom.plugins.evaluation.metric import Measurement, Subject
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.metrics.bpd import BitsPerDim, _with_replicates, draws_error
from elbowroom.plugins.schedules.gaussian import VPCosine
from elbowroom.plugins.schedules.masking import Cosine

from tests.helpers.pictures import Rows

STATES = every_state((2,), 3)  # nine states of two tokens with three values
COUNTS = torch.tensor([12, 1, 1, 1, 6, 1, 2, 1, 9])
SPEC = DataSpec((2,), levels=3)


@attrs.frozen(eq=False)
class Table(Dataset):
    """A split holds each state as often as its probability says: nothing is left to chance."""

    @property
    def spec(self):
        return SPEC

    def split(self, name):
        return Rows(STATES.repeat_interleave(COUNTS, 0))


ORACLE = TableOracle(STATES, COUNTS.double() / COUNTS.sum())
ENTROPY = ORACLE.entropy / (2 * math.log(2))  # bits a dimension


class Model:
    """A process with a denoiser that is known."""

    path = Shared()

    def __init__(self, process, schedule, oracle=ORACLE):
        self.process, self.schedule = process.bind(SPEC), schedule
        self.known = oracle.predict(self.process)

    def predict(self, z, level, cond):
        return self.known(z, level)


EXACT = {
    "masked": Model(Masked(), Cosine(eps=1e-6)),
    "masked to the very end": Model(Masked(), Cosine(eps=0.0)),
    "gaussian": Model(Gaussian(), VPCosine(eps=1e-4)),
}


def measured(model, **options):
    subject = {k: options.pop(k) for k in ("seed", "batch_size") if k in options}
    metric = BitsPerDim(**options)
    metric.prepare(Subject(Table(), model, **subject))
    return metric.compute()


@pytest.mark.parametrize("process", EXACT)
def test_the_bound_of_an_exact_denoiser_is_the_entropy(process):
    """No model can do better, and the best model does not seem to do worse."""
    measurement = measured(EXACT[process], draws=10_000, batch_size=40_000)["bits_per_dim"]
    # the split is the distribution itself: only the levels and the noise are left to chance, and
    # over six seeds that is a spread of 0.011 at most
    assert measurement.value == pytest.approx(ENTROPY, abs=0.03)
    assert measurement.better == "lower"


@pytest.mark.parametrize("process", EXACT)
def test_an_imperfect_denoiser_has_a_worse_bound(process):
    """The same distribution with a wrong idea of it: clearly above the entropy."""
    uniform = TableOracle(STATES, torch.full((9,), 1 / 9, dtype=torch.float64))
    model = EXACT[process]
    schedule = model.schedule
    wrong = measured(Model(type(model.process)(), schedule, uniform), draws=1000)["bits_per_dim"]
    assert wrong.value > ENTROPY + 0.1


@pytest.mark.parametrize("process", EXACT)
def test_the_three_terms_sum_to_the_bound(process):
    """Prior, reconstruction and diffusion are told apart."""
    measurements = {
        name: measurement.value for name, measurement in measured(EXACT[process]).items()
    }
    terms = sum(measurements[f"bits_per_dim_{t}"] for t in ("prior", "reconstruction", "diffusion"))
    assert measurements["bits_per_dim"] == pytest.approx(terms, rel=1e-9)


def test_masking_that_ends_early_pays_at_the_boundary():
    """With eps the boundary terms are N eps ln V each, as the formula says."""
    measurements = measured(Model(Masked(), Cosine(eps=1e-2)))
    for term in ("prior", "reconstruction"):
        wanted = 1e-2 * math.log2(3)
        assert measurements[f"bits_per_dim_{term}"].value == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("process", EXACT)
def test_the_batch_size_changes_no_question(process):
    """Noise is keyed by example and look."""
    one = measured(EXACT[process], draws=4, batch_size=1000)
    other = measured(EXACT[process], draws=4, batch_size=7)
    for name, measurement in one.items():
        assert other[name].value == pytest.approx(measurement.value, rel=1e-6, abs=1e-9)
        assert other[name].standard_error == pytest.approx(
            measurement.standard_error, rel=1e-4, abs=1e-9
        )


def test_the_standard_error_is_never_too_small():
    """One measurement differs from the next by no more than it says (even levels make it less)."""
    found = [measured(EXACT["masked"], draws=50, seed=k)["bits_per_dim"] for k in range(30)]
    spread = torch.tensor([measurement.value for measurement in found]).std().item()
    told = sum(measurement.standard_error for measurement in found) / len(found)
    assert spread < 1.2 * told


def test_even_levels_do_not_count_as_doubt(monkeypatch):
    """A bound that depends on the level alone is known nearly without error."""

    def known(process, schedule, predict, x, noise, **_):
        nats = 100 * stratified(noise) ** 4
        return Bound(0 * nats, 0 * nats, nats)

    monkeypatch.setattr(module, "bound", known)
    measurement = measured(EXACT["masked"], draws=64)["bits_per_dim"]
    assert measurement.value == pytest.approx(20 / (2 * math.log(2)), rel=1e-3)
    assert measurement.standard_error < 0.02


def test_the_standard_error_is_that_of_the_mean_over_examples(monkeypatch):
    """Where the bound of each example is known, so is its error."""

    def known(process, schedule, predict, x, noise, **_):
        nats = x.double().sum(1)
        return Bound(nats, 0 * nats, 0 * nats)

    monkeypatch.setattr(module, "bound", known)
    measurement = measured(EXACT["masked"], draws=2)["bits_per_dim"]
    each = STATES.repeat_interleave(COUNTS, 0).double().sum(1) / (2 * math.log(2))
    assert measurement.value == pytest.approx(each.mean().item())
    assert measurement.standard_error == pytest.approx(each.std().item() / math.sqrt(len(each)))


@pytest.mark.parametrize("own", [Cosine(), VPCosine(), VPCosine(eps=1e-5)])
def test_the_measuring_schedule_keeps_the_laws_and_the_ends(own):
    """It is a schedule like any other, from the same first level to the same last."""
    schedule = HalfEven.of(own)
    check_schedule(schedule)
    ends = torch.tensor([0.0, 1.0], dtype=torch.float64)
    assert torch.equal(schedule.log_snr(ends), own.log_snr(ends))


def test_the_measuring_schedule_looks_at_least_half_as_often_anywhere():
    """Its density over lambda is nowhere below half of the own one's, nor of the even one's."""
    own = VPCosine()
    schedule = HalfEven.of(own)
    lam = torch.linspace(-12.5, 12.5, 201, dtype=torch.float64)
    density = 1 / schedule.rate(schedule.time(lam))
    high, low = own.log_snr(torch.tensor([0.0, 1.0], dtype=torch.float64)).tolist()
    assert bool((density > 0.48 / own.rate(own.time(lam))).all())
    assert bool((density > 0.49 / (high - low)).all())


def test_a_schedule_without_ends_is_kept():
    """Evenly over an infinite range there is no looking."""
    own = VPCosine(eps=0.0)
    assert HalfEven.of(own) is own


def test_few_examples_and_more_looks():
    """``limit`` takes some of the split, ``draws`` is stated."""
    measurement = measured(EXACT["masked"], limit=10, draws=3)["bits_per_dim"]
    assert measurement.of["split"] == "10 test examples" and measurement.of["draws"] == 3


def test_without_a_model_there_is_no_bound():
    """Samples alone have no likelihood."""
    with pytest.raises(ElbowroomError, match="needs a model"):
        BitsPerDim().prepare(Subject(Table()))


def test_errors_of_draws_and_of_examples_are_told_apart():
    """draws_error is the std of the mean over draws alone; replicates have that over examples."""
    torch.manual_seed(0)
    examples = torch.randn(143, dtype=torch.float64)
    looks = examples + 3 * torch.randn(500, 6, 143, dtype=torch.float64)
    told = torch.tensor([draws_error(one) for one in looks]).mean()
    assert float(told) == pytest.approx(float(looks.mean((1, 2)).std()), rel=0.1)
    found = _with_replicates(Measurement(1.5), looks[0])
    values = torch.tensor(found.replicates, dtype=torch.float64)
    assert len(values) == 64 and float(values.mean()) == pytest.approx(1.5)
    due = standard_error(looks[0])
    assert float(values.std()) / 8 == pytest.approx(due, rel=0.3)

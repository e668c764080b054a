"""B(grid) less the entropy is the divergence of whole paths, whatever the denoiser says.

Masked without eps, where sampler and bound are one model: every path (x, z_0 .. z_T) is enumerated.
Gaussian: the divergence of each step is integrated numerically from densities written out here.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from elbowroom import CategoricalPrediction, DataSpec, Grid, Level, Noise, RealPrediction
from elbowroom.plugins.conformance.oracle import TableOracle, counts_in
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.samplers.ancestral import Ancestral
from elbowroom.plugins.schedules.masking import Linear

from tests.plugins.tightest_grid.exact_costs import (
    POINTS,
    SPEC,
    STATES,
    gaussian_costs_of,
    masked_costs_of,
    oracle,
)

MASKED = Masked().bind(SPEC)
FAR = 30.0  # a share of tokens that is none, or all
SHARES = {1: [], 2: [0.35], 3: [0.2, 0.75]}  # between the ends


def wild(z, level):
    """Logits without any sense, other ones for every z and level."""
    code = (z * torch.tensor([1, 4, 16])).sum(1) + level.log_snr.sigmoid().flatten()  # [B]
    places = torch.arange(9.0).view(3, 3) ** 2
    return CategoricalPrediction(3 * torch.sin(7.0 * code[:, None, None] + places))


DENOISERS = {
    "exact": oracle().predict(MASKED),
    "unsure": TableOracle(STATES, oracle().probabilities, power=0.3).predict(MASKED),
    "of other data": TableOracle(STATES, oracle().probabilities.flip(0)).predict(MASKED),
    "wild": wild,
}


def levels_of(steps):
    inner = torch.tensor(SHARES[steps], dtype=torch.float64).logit()
    ends = torch.tensor([FAR], dtype=torch.float64)
    return torch.cat([-ends, inner, ends])


def paths(predict, steps):
    """log q and log p [27, 27] of every path: of each x, with each token shown in some step."""
    share = [0.0, *SHARES[steps], 1.0]
    levels = Level.at(levels_of(steps), MASKED)
    when = torch.tensor(list(itertools.product(range(steps), repeat=3)))  # [W, 3]
    x, shown = (
        part.reshape(-1, 3) for part in torch.broadcast_tensors(STATES[:, None], when[None])
    )
    width = torch.tensor(share, dtype=torch.float64).diff()
    log_q = oracle().probabilities.log()[:, None] + width[when].log().sum(1)  # [27, W]
    log_p = torch.zeros(len(x), dtype=torch.float64)
    for i in range(steps):
        z = torch.where(shown < i, x, MASKED.mask)
        guess = predict(z, levels.select(i)).logits.double().log_softmax(-1)
        value = guess.gather(-1, x[..., None]).squeeze(-1)  # [27 W, 3]
        appears = torch.tensor((share[i + 1] - share[i]) / (1 - share[i])).double()
        now, later = appears.log() + value, torch.log1p(-appears)
        each = torch.where(shown == i, now, torch.where(shown > i, later, 0.0))
        log_p += each.sum(1)
    return log_q, log_p.view_as(log_q)


@pytest.mark.parametrize("steps", SHARES)
@pytest.mark.parametrize("name", DENOISERS)
def test_a_masked_bound_is_the_divergence_of_paths(name, steps):
    """Of a good denoiser and of bad ones; that of the samples alone is no larger."""
    log_q, log_p = paths(DENOISERS[name], steps)
    assert float(log_q.exp().sum()) == pytest.approx(1)
    assert float(log_p.exp().sum()) == pytest.approx(1)
    costs = masked_costs_of(oracle(), DENOISERS[name], levels_of(steps))
    bound = costs.total(range(steps + 1)) - oracle().entropy
    assert bound == pytest.approx(float((log_q.exp() * (log_q - log_p)).sum()), rel=1e-9)
    data, samples = log_q.logsumexp(1), log_p.logsumexp(1)
    assert 0 < float((data.exp() * (data - samples)).sum()) <= bound + 1e-9


class Given(Grid):
    """Times that were chosen."""

    def __init__(self, times):
        self._times = torch.tensor(times, dtype=torch.float64)

    def times(self, steps, schedule):
        return self._times


class Model:
    """A denoiser as a model."""

    def __init__(self, predict):
        self.process, self.schedule, self._predict = MASKED, Linear(eps=0.0), predict

    def predict(self, z, level, cond):
        return self._predict(z, level)


@pytest.mark.parametrize("name", DENOISERS)
def test_the_sampler_draws_from_that_model(name):
    """Each of the 27 outcomes as often as its paths say, within five standard errors."""
    _, log_p = paths(DENOISERS[name], 3)
    grid = Given([1.0, *(1 - a for a in SHARES[3]), 0.0])
    count = 20_000
    x = Ancestral(3, grid).sample(Model(DENOISERS[name]), Noise.of(1, count)).x
    p = log_p.exp().sum(1)
    found, others = counts_in(oracle(), x)
    assert others == 0
    assert ((found - count * p).abs() <= 5 * (count * p * (1 - p)).sqrt() + 1).all()


# -- Gaussian

GAUSSIAN = Gaussian().bind(DataSpec((1,), 5))
LEVELS = {1: [-3.0, 3.5], 2: [-3.0, -0.5, 3.5], 3: [-3.0, -0.5, 1.5, 3.5]}
Z = torch.linspace(-9, 9, 1801, dtype=torch.float64)


def points():
    return GAUSSIAN.encode(POINTS.states).double().squeeze(1)  # [S]


def joint(lam):
    """[S, Z] q(x, z): a weighted normal density for each point."""
    share = lam.sigmoid()
    away = Z - share.sqrt() * points()[:, None]
    normal = (-(away**2) / (2 * (1 - share))).exp() / (2 * torch.pi * (1 - share)).sqrt()
    return POINTS.probabilities[:, None] * normal


def mean(lam):
    """[Z] E[x | z]."""
    both = joint(lam)
    return (points()[:, None] * both).sum(0) / both.sum(0)


def poor(x):
    """A denoiser that is off."""
    return 0.6 * x + 0.15


def divergence(lam, to, guess):
    """E KL(q(z' | z, x) || q(z' | z, x = guess(z))), integrated over x, z and z'."""
    a, b = lam.sigmoid(), to.sigmoid()
    kept, fresh = (a / b).sqrt(), 1 - a / b  # z = kept z' + noise of variance ``fresh``
    variance = fresh * (1 - b) / (1 - a)

    def centre(x):
        return kept * (1 - b) / (1 - a) * Z + b.sqrt() * fresh / (1 - a) * x

    true, said = centre(points()[:, None]), centre(guess)  # [S, Z] and [Z]
    u = torch.linspace(-8, 8, 161, dtype=torch.float64)  # of z', in standard deviations
    density = (-(u**2) / 2).exp() / (2 * torch.pi) ** 0.5
    there = true[..., None] + variance.sqrt() * u  # [S, Z, U]
    log_ratio = (there - said[:, None]) ** 2 / (2 * variance) - u**2 / 2
    inner = torch.trapezoid(density * log_ratio, u)
    return float(torch.trapezoid((joint(lam) * inner).sum(0), Z))


@pytest.mark.parametrize("steps", LEVELS)
@pytest.mark.parametrize("spoil", [lambda x: x, poor], ids=["exact", "poor"])
def test_a_gaussian_bound_is_the_divergence_of_its_steps(steps, spoil):
    """Costs, by price and expected loss, are what integration of densities finds."""

    def predict(z, level):
        exact = POINTS.predict(GAUSSIAN)(z, level)
        return RealPrediction(z, level, given_x=spoil(exact.x))

    lam = torch.tensor(LEVELS[steps], dtype=torch.float64)
    costs = gaussian_costs_of(POINTS, predict, lam)
    due = sum(divergence(s, t, spoil(mean(s))) for s, t in itertools.pairwise(lam))
    assert costs.total(range(steps + 1)) == pytest.approx(due, rel=1e-6)


def information(lam):
    """I(x; z) in nats, by integration."""
    both = joint(lam)
    given = both / POINTS.probabilities[:, None]
    terms = torch.special.xlogy(both, given) - torch.special.xlogy(both, both.sum(0))
    return float(torch.trapezoid(terms.sum(0), Z))


def test_with_many_steps_a_gaussian_bound_is_what_z_learns_of_x():
    """I-MMSE: half the area under the mean squared error over SNR is the gain of information."""
    lam = torch.linspace(-3, 3.5, 401, dtype=torch.float64)
    costs = gaussian_costs_of(POINTS, POINTS.predict(GAUSSIAN), lam)
    gained = information(lam[-1]) - information(lam[0])
    bound = costs.total(range(401))
    assert bound > gained
    after = float((costs.slope[1:] * costs.coordinate.diff()[:-1]).sum())  # each step at its end
    assert after < gained
    assert bound == pytest.approx(gained, rel=0.02)
    assert (bound + after) / 2 == pytest.approx(gained, rel=2e-3)

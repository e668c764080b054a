"""Uniform-state diffusion: its bound against enumeration, its steps against Bayes' rule."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from elbowroom import CategoricalPrediction, DataSpec, Level, Noise, Step, assemble
from elbowroom.contrib.psi import Psi
from elbowroom.contrib.uniform import Uniform
from elbowroom.plugins.conformance import TableOracle, check_process, every_state
from elbowroom.plugins.conformance.law import chi_square
from elbowroom.plugins.samplers.ancestral import Ancestral
from elbowroom.plugins.schedules.masking import Linear
from elbowroom.registry.components import installed
from hypothesis import given, settings, strategies as st
from torch import Tensor

LAMBDAS = st.floats(-8, 8)


def levels_at(process: Uniform, log_snr: float | Tensor, like: Tensor) -> Level:
    lam = torch.as_tensor(log_snr, dtype=torch.float64).expand(len(like)).clone()
    return Level.at(lam, process).over(like)


def quadrature(low: float, high: float, nodes: int = 160) -> list[tuple[float, float]]:
    """Gauss-Legendre: (lambda, weight)."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    half = (high - low) / 2
    return [(low + half * (1 + p), half * w) for p, w in zip(points, weights, strict=True)]


def coupled_pair() -> tuple[Uniform, TableOracle]:
    """All nine states of two tokens of three values, with random probabilities."""
    states = every_state((2,), 3)
    weights = torch.rand(9, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return Uniform().bind(DataSpec((2,), 3)), TableOracle(states, weights / weights.sum())


def conditional_entropy(process: Uniform, table: TableOracle, log_snr: float) -> float:
    """H(x | z) in nats at a level, by enumeration."""
    every = every_state(process.data.shape, process.data.levels)
    level = levels_at(process, log_snr, every)
    joint = torch.stack(
        [
            p * process.log_likelihood(every, x.expand_as(every), level).exp()
            for x, p in zip(table.states, table.probabilities, strict=True)
        ]
    )  # [S, Z]
    posterior = joint / joint.sum(0)
    return float(-(joint * posterior.log()).sum())


def expected_plain(process: Uniform, table: TableOracle, predict, log_snr: float) -> float:
    """E over x and z of the summed plain losses at a level, by enumeration."""
    every = every_state(process.data.shape, process.data.levels)
    level = levels_at(process, log_snr, every)
    prediction, total = predict(every, level), 0.0
    for x, p in zip(table.states, table.probabilities, strict=True):
        wide = x.expand_as(every)
        q = process.log_likelihood(every, wide, level).exp()
        plain = process.plain_loss(wide, every, prediction, level).sum(1)
        total += float(p * (q * plain).sum())
    return total


@pytest.mark.parametrize("schedule", [None, "cosine", "vp-cosine", "linear-log-snr"])
def test_it_keeps_the_laws_of_a_process(schedule):
    """It passes the conformance kit under its natural schedule and others."""
    found = installed()
    check_process(Uniform(), schedule and found.find("schedule", schedule).load()())


@pytest.mark.parametrize(("low", "high"), [(-9.0, 9.0), (-4.0, 6.0), (-1.0, 0.5)])
def test_the_exact_denoiser_pays_what_is_to_be_known(low, high):
    """The bound's integral from lambda_1 to lambda_0 is H(x | z_1) - H(x | z_0), to 1e-9."""
    process, table = coupled_pair()
    predict = table.predict(process)
    integral = sum(
        w * expected_plain(process, table, predict, lam) for lam, w in quadrature(low, high)
    )
    due = conditional_entropy(process, table, low) - conditional_entropy(process, table, high)
    assert integral == pytest.approx(due, rel=1e-9)


def test_a_worse_denoiser_pays_more():
    """A tempered guess costs more at every level: the exact one is the optimum."""
    process, table = coupled_pair()
    tempered = TableOracle(table.states, table.probabilities, power=0.7)
    for lam in (-3.0, -1.0, 0.0, 2.0, 5.0):
        exact, worse = (
            expected_plain(process, table, one.predict(process), lam) for one in (table, tempered)
        )
        assert worse > exact + 1e-6


@pytest.mark.parametrize(("low", "high"), [(-9.0, 9.0), (-2.0, 3.0)])
@pytest.mark.parametrize("levels", [2, 3, 7])
def test_a_network_that_says_nothing_costs_log_v(low, high, levels):
    """Prior, reconstruction and integral are log V together, wherever the schedule ends."""
    process = Uniform().bind(DataSpec((1,), levels))
    table = TableOracle.point_mass(torch.tensor([1]))

    def predict(z: Tensor, level: Level) -> CategoricalPrediction:
        return process.read(torch.zeros(*z.shape, levels, dtype=torch.float64), z, level)

    x = torch.tensor([[1]])
    prior = process.prior_kl(x, levels_at(process, low, x))
    rest = process.reconstruction(x, levels_at(process, high, x), Noise.of(0, 1))
    integral = sum(
        w * expected_plain(process, table, predict, lam) for lam, w in quadrature(low, high)
    )
    assert float(prior + rest) + integral == pytest.approx(math.log(levels), rel=1e-9)


@pytest.mark.parametrize("steps", [1, 2, 16])
def test_steps_of_one_token_pay_the_same_however_many(steps):
    """For one token ancestral steps are exact: their KLs sum to the same knowledge gained."""
    process = Uniform().bind(DataSpec((1,), 4))
    weights = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
    table = TableOracle(torch.arange(4)[:, None], weights)
    every, predict = every_state((1,), 4), table.predict(process)
    grid, total = torch.linspace(-7, 7, steps + 1, dtype=torch.float64), 0.0
    for start, end in itertools.pairwise(grid):
        here, to = levels_at(process, start, every), levels_at(process, end, every)
        for x, p in zip(table.states, weights, strict=True):
            wide = x.expand_as(every)
            q = process.log_likelihood(every, wide, here).exp()
            kl = process.step_kl(wide, every, predict(every, here), here, to)
            total += float(p * (q * kl).sum())
    due = conditional_entropy(process, table, -7.0) - conditional_entropy(process, table, 7.0)
    assert total == pytest.approx(due, rel=1e-9)


@settings(max_examples=50)
@given(lam=LAMBDAS, levels=st.integers(2, 6), seed=st.integers(0, 99))
def test_the_plain_loss_is_the_divergence_of_the_two_jump_processes(lam, levels, seed):
    """It equals the sum over y written with rates, for every guess, value and level."""
    process = Uniform().bind(DataSpec((1,), levels))
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(levels, generator=generator, dtype=torch.float64)
    p, a = logits.softmax(0), 1 / (1 + math.exp(-lam))
    k = (1 - a) / levels

    def q(z: int, x: int) -> float:
        return a * (z == x) + k

    for x, z in itertools.product(range(levels), repeat=2):
        due = 0.0
        for y in set(range(levels)) - {z}:
            true = k * q(y, x) / q(z, x)
            guess = k * sum(float(p[c]) * q(y, c) / q(z, c) for c in range(levels))
            due += guess - true + true * math.log(true / guess)
        at = torch.tensor([[z]])
        got = process.plain_loss(
            torch.tensor([[x]]),
            at,
            CategoricalPrediction(logits.reshape(1, 1, -1)),
            levels_at(process, lam, at),
        )
        assert float(got) == pytest.approx(due, rel=1e-6, abs=1e-12)
        assert float(got) >= 0


@settings(max_examples=50)
@given(ends=st.tuples(LAMBDAS, LAMBDAS).map(sorted), seed=st.integers(0, 99))
def test_a_reverse_step_is_bayes_rule(ends, seed):
    """p(z_s | z_t) is the guess's mean of q(z_s, z_t | x) / q(z_t | x), with q from matrices."""
    lam_t, lam_s = ends[0], ends[1] + 0.01
    v = 4
    process = Uniform().bind(DataSpec((1,), v))

    def matrix(a: float) -> Tensor:  # [from, to]
        eye = torch.eye(v, dtype=torch.float64)
        return a * eye + (1 - a) / v

    a_t, a_s = (1 / (1 + math.exp(-lam)) for lam in (lam_t, lam_s))
    joint = matrix(a_s)[:, :, None] * matrix(a_t / a_s)[None]  # [x, z_s, z_t]
    torch.testing.assert_close(joint.sum(1), matrix(a_t))
    generator = torch.Generator().manual_seed(seed)
    p = torch.randn(v, generator=generator, dtype=torch.float64).softmax(0)
    z = torch.arange(v)[:, None]
    here, to = levels_at(process, lam_t, z), levels_at(process, lam_s, z)
    got = process._posterior(z, p.expand(v, 1, v), here, to)[:, 0]  # [z_t, z_s]
    due = torch.einsum("x,xyz->zy", p, joint / joint.sum(1, keepdim=True))
    torch.testing.assert_close(got, due, rtol=1e-9, atol=1e-12)
    assert float((got.sum(1) - 1).abs().max()) < 1e-9


@pytest.mark.parametrize("lam", [-30.0, -15.0, 15.0, 30.0])
def test_losses_and_gradients_are_finite_far_out(lam):
    """In float32 nothing overflows at levels far beyond any schedule."""
    process = Uniform().bind(DataSpec((4,), 256))
    x = torch.arange(32).reshape(8, 4)
    z = torch.where(torch.rand(8, 4, generator=torch.Generator().manual_seed(0)) < 0.5, x, 255)
    level = Level.at(torch.full((8,), lam), process).over(x)
    output = torch.randn(8, 4, 256, generator=torch.Generator().manual_seed(1)).requires_grad_()
    loss = process.plain_loss(x, z, process.read(output, z, level), level)
    loss.sum().backward()
    assert loss.isfinite().all()
    assert (loss >= 0).all()
    assert output.grad.isfinite().all()


def test_a_reverse_step_draws_what_it_says():
    """Drawn values have the frequencies of the posterior."""
    process, count = Uniform().bind(DataSpec((1,), 3)), 30_000
    z = torch.full((count, 1), 2)
    here, to = levels_at(process, -1.0, z), levels_at(process, 0.5, z)
    logits = torch.tensor([1.0, 0.0, -1.0]).expand(count, 1, 3)
    step = Step(torch.zeros(count, dtype=torch.int64), here, to, here)
    drawn = process.reverse(z, CategoricalPrediction(logits), step, Noise.of(0, count))
    due = process._posterior(z[:1], logits[:1].double().softmax(-1), here.select(slice(0, 1)),
                             to.select(slice(0, 1))).flatten()  # fmt: skip
    share = torch.bincount(drawn.flatten(), minlength=3) / count
    assert float((share - due).abs().max()) < 4 * math.sqrt(0.25 / count)


def test_it_needs_no_entry_point():
    """A config names it by reference; a network is built, trained on a batch and sampled."""
    model = assemble(
        {
            "data": "digits",
            "process": "uniform",
            "denoiser": {"name": "dit", "width": 32, "depth": 1},
            "sampler": {"name": "ancestral", "steps": 4},
        }
    )
    x = torch.randint(17, (6, 8, 8, 1), generator=torch.Generator().manual_seed(0))
    y = torch.arange(6)
    model(x, y, Noise.of(0, 6)).loss.backward()
    assert all(p.grad is not None for p in model.denoiser.parameters())
    model.eval()
    nats = model.bound(x, y, Noise.of(1, 6)).nats.mean()  # a fresh network says nothing
    assert float(nats) == pytest.approx(64 * math.log(17), rel=0.25)
    drawn = model.sampler.sample(model, Noise.of(0, 3), torch.arange(3)).x
    assert drawn.shape == (3, 8, 8, 1)
    assert 0 <= int(drawn.min()) <= int(drawn.max()) <= 16


def test_a_masked_sampler_refuses_it_by_its_traits():
    """What needs a hidden state says so."""
    with pytest.raises(Exception, match="absorbing"):
        assemble(
            {
                "data": "digits",
                "process": "uniform",
                "denoiser": "dit",
                "sampler": "first-hitting",
            }
        )


# -- Psi-samplers


class Oracle:
    """A model whose denoiser is a table's own posterior."""

    def __init__(self, process, table, schedule):
        self.process, self.schedule, self._predict = process, schedule, table.predict(process)

    def predict(self, z, level, cond):
        return self._predict(z, level)


def psi_laws(model: Oracle, sampler: Psi, *, data: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Of each step: the joint law of z before and after it, [S, S], enumerated; q(z) after it."""
    process, levels = model.process, sampler.levels(model)
    tokens, v = process.data.shape[0], process.data.levels
    z = every_state((tokens,), v)
    law = torch.full((len(z),), 1 / len(z), dtype=torch.float64)
    found = []
    for i in range(sampler.steps):
        here, to = (levels.select(torch.full((len(z),), n)).over(z) for n in (i, i + 1))
        p = model.predict(z, here, None).logits.double().softmax(-1)  # [S, N, V]
        a = float(levels.share[i + 1])
        anew = a * p + (1 - a) / v
        moved = process._posterior(z, p, here, to)
        each = (1 - sampler.eta) * moved / moved.sum(-1, keepdim=True) + sampler.eta * anew
        joint = law[:, None].expand(-1, len(z))
        for k in range(tokens):
            joint = joint * each[:, k][:, z[:, k]]
        law = joint.sum(0)
        like = torch.stack([process.log_likelihood(z, x.expand_as(z), to) for x in z], -1)
        found.append((joint, like.exp() @ data))
    return found


def steps_of(sampler: Psi, model: Oracle, count: int) -> list[Tensor]:
    """How often each pair of states came before and after each step, [S, S]."""
    v, tokens = model.process.data.levels, model.process.data.shape[0]
    place = torch.tensor([v**k for k in reversed(range(tokens))])
    frames = [f.z for f in sampler.frames(model, Noise.of(0, count)) if f.x is None]
    numbers = [(z * place).sum(1) for z in frames]
    states = v**tokens
    return [
        torch.bincount(before * states + after, minlength=states**2)
        for before, after in itertools.pairwise(numbers)
    ]


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("eta", [0.0, 0.3, 1.0])
def test_psi_meets_every_level_of_a_single_token_exactly(eta, steps):
    """Whatever eta and however few the steps: kernel and samples have the law q(z_s)."""
    process = Uniform().bind(DataSpec((1,), 4))
    table = TableOracle(every_state((1,), 4), torch.tensor([0.5, 0.3, 0.15, 0.05]).double())
    model, sampler = Oracle(process, table, Linear(eps=1e-9)), Psi(steps, eta=eta)
    laws = psi_laws(model, sampler, data=table.probabilities)
    for found, (pairs, due) in zip(steps_of(sampler, model, 20_000), laws, strict=True):
        assert torch.allclose(pairs.sum(0), due, atol=1e-6)
        assert chi_square(found.view(4, 4).sum(0), due * 20_000) > 1e-3


@pytest.mark.parametrize("eta", [0.0, 0.4, 1.0])
def test_psi_steps_have_the_law_of_the_kernel(eta):
    """Of tokens that depend on each other; the kernel of another eta is told apart."""
    process, table = coupled_pair()
    model = Oracle(process, table, Linear())
    laws, others = (
        psi_laws(model, Psi(4, eta=chosen), data=table.probabilities)
        for chosen in (eta, 1 - eta / 2)
    )
    found = steps_of(Psi(4, eta=eta), model, 20_000)
    for counts, (pairs, _) in zip(found, laws, strict=True):
        assert chi_square(counts, pairs.flatten() * 20_000) > 1e-3
    # not in the first step, from pure noise, nor in the last, to none: there all eta are the same
    assert chi_square(found[1], others[1][0].flatten() * 20_000) < 1e-6


def test_psi_that_never_guesses_is_ancestral():
    """The same samples and calls."""
    process, table = coupled_pair()
    model, noise = Oracle(process, table, Linear()), Noise.of(0, 300)
    one, other = Psi(7, eta=0.0).sample(model, noise), Ancestral(7).sample(model, noise)
    assert torch.equal(one.x, other.x)
    assert torch.equal(one.calls, other.calls)


def test_psi_samples_do_not_depend_on_the_batch():
    """A seed gives the same samples, whatever batches they are drawn in."""
    process, table = coupled_pair()
    model, sampler = Oracle(process, table, Linear()), Psi(6, eta=0.3)
    whole = sampler.sample(model, Noise.of(3, 40)).x
    parts = [
        sampler.sample(model, Noise.of(3, 40).select(slice(k, k + 7))).x for k in range(0, 40, 7)
    ]
    assert torch.equal(torch.cat(parts), whole)

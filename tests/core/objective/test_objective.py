"""The objective: reference values, invariances, bounds."""

from __future__ import annotations

import ast
import math

import attrs
import pytest
import torch
from elbowroom import CategoricalPrediction, DataSpec, Level, Noise, RealPrediction
from elbowroom.contracts.normaliser import BatchMean
from elbowroom.objective.loss import Objective, bound
from elbowroom.plugins.conformance.oracle import MixtureOracle, TableOracle, every_state
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.paper.theory import three_tokens
from elbowroom.plugins.schedules.gaussian import EDM as EDMSchedule, Flow, LinearLogSNR, VPCosine
from elbowroom.plugins.schedules.masking import Cosine, Linear, Polynomial
from elbowroom.plugins.time_samplers.importance import Importance
from elbowroom.plugins.time_samplers.logit_normal import LogitNormal
from elbowroom.plugins.time_samplers.uniform import Stratified, Uniform
from elbowroom.plugins.training.units import UnitMean
from elbowroom.plugins.weightings.paper import EDM, Elbo, Sigmoid
from elbowroom.plugins.weightings.simple import Simple
from hypothesis import given, settings, strategies as st

from tests.helpers import toy
from tests.helpers.paper import MASKING, WEIGHTINGS
from tests.helpers.reference import reference, tensor

CONTINUOUS = "toy_continuous_time_objective (positive loss, nats, summed over tokens)"
DISCRETE = next(key for key in reference() if key.startswith("toy_discrete_time_objective"))


def _objective(schedule, weighting, steps=None, times=None, process=toy.PROCESS, **options):
    times = times or Stratified()
    return Objective.prepared(process, schedule, weighting, times, steps=steps, **options)


def _integral(objective, predict):
    t, weights = toy.quadrature()
    plain = toy.expected_plain(predict, objective.level(t))
    return float((weights * objective.plain_weight(t) * plain).sum())


CASES = [
    (schedule, eps, name) for schedule in MASKING for eps in ("0", "1e-4") for name in WEIGHTINGS
]


@pytest.mark.parametrize(("schedule", "eps", "name"), CASES)
def test_toy_objectives_by_quadrature(schedule, eps, name):
    """The continuous-time objective of both toy denoisers is the reference value to 1e-9."""
    row = reference()[CONTINUOUS][f"schedule={schedule},eps={eps}"][name]
    objective = _objective(MASKING[schedule](eps=float(eps)), WEIGHTINGS[name])
    fixed = _integral(objective, toy.fixed)
    assert math.isclose(fixed, row["fixed_denoiser_nats"], rel_tol=1e-9)
    if "context_denoiser_nats" in row:
        with_context = _integral(objective, toy.context)
        assert math.isclose(with_context, row["context_denoiser_nats"], rel_tol=1e-9)


@pytest.mark.parametrize("key", list(reference()[DISCRETE]))
def test_toy_objectives_in_discrete_time(key):
    """With T steps the objective is the sum over steps of the reference file."""
    schedule, steps, name = key.split(",")
    steps = int(steps.removeprefix("T="))
    objective = _objective(MASKING[schedule](), WEIGHTINGS[name], steps)
    t = (torch.arange(steps, dtype=torch.float64) + 0.5) / steps  # one draw in each step
    plain = toy.expected_plain(toy.context, objective.level(t))
    value = float((objective.plain_weight(t) * plain).mean())
    assert math.isclose(value, reference()[DISCRETE][key], rel_tol=1e-10)


@pytest.mark.parametrize(
    "times", [Stratified(), Uniform(), Importance(), LogitNormal()], ids=lambda t: type(t).__name__
)
@pytest.mark.parametrize("name", ["elbo", "simple", "fm"])
@pytest.mark.parametrize("steps", [None, 8])
def test_the_objective_does_not_depend_on_the_time_sampler(times, name, steps):
    """By Monte Carlo every time sampler gives the value of the quadrature, within error bars."""
    objective = _objective(Cosine(), WEIGHTINGS[name], steps, times)
    batches = [
        objective(toy.context, toy.X.expand(512, -1), Noise.of(3, 512, step=step)).per_example
        for step in range(24)
    ]
    means = torch.stack([batch.double().mean() for batch in batches])
    error = float(means.std() / math.sqrt(len(means)))
    t = (torch.arange(8, dtype=torch.float64) + 0.5) / 8
    if steps is None:
        due = _integral(objective, toy.context)
    else:
        due = float(
            (objective.plain_weight(t) * toy.expected_plain(toy.context, objective.level(t))).mean()
        )
    assert abs(float(means.mean()) - due) < 5 * error + 1e-4 * due


@pytest.mark.parametrize("name", ["elbo", "edm", "iddpm", "sigmoid_k0", "fm"])
def test_the_objective_does_not_depend_on_the_schedule(name):
    """Weightings of lambda give one value under every schedule with the same ends."""
    values = [
        _integral(_objective(schedule, WEIGHTINGS[name]), toy.context)
        for schedule in (Cosine(), Linear(), Polynomial(exponent=3.0), LinearLogSNR(*_ends()))
    ]
    assert max(values) - min(values) < 1e-6 * max(values)


def _ends():
    return Cosine().log_snr(tensor([0.0, 1.0])).tolist()


def test_simple_does_depend_on_the_schedule():
    """The simple weighting, which is none of lambda, gives another value under another schedule."""
    cosine, linear = (_integral(_objective(s(), Simple()), toy.context) for s in (Cosine, Linear))
    assert abs(cosine - linear) > 0.1


@pytest.mark.parametrize("name", ["elbo", "sigmoid_k0", "iddpm"])
def test_discrete_time_tends_to_continuous_time(name):
    """With the tempered denoiser the sum over T steps approaches the integral as the file says."""
    rows = reference()["theorem_check_masked"][
        "T_to_infinity (cosine, tempered_0.5 denoiser), positive loss"
    ]
    table = attrs.evolve(three_tokens(), power=0.5)
    process = Masked().bind(DataSpec((3,), 3))
    z = every_state((3,), 4)

    def value(objective, t, weights):
        level = objective.level(t)
        said = predict(z, level)
        total = 0.0
        for x, probability in zip(table.states, table.probabilities, strict=True):
            spread = level.over(torch.zeros(len(t), 1))
            q = torch.stack(
                [
                    process.log_likelihood(one.expand(len(t), -1), x.expand(len(t), -1), spread)
                    for one in z
                ],
                1,
            ).exp()
            plain = process.plain_loss(x.expand_as(z), z, said, level.select(0)).sum(1)
            plain = torch.where(q > 0, plain, 0.0)
            total += probability * ((q * plain).sum(1) * objective.plain_weight(t) * weights).sum()
        return float(total)

    def predict(z, level):  # a masked posterior does not depend on the level: any will do
        return table.predict(process)(z, Level.of(tensor([0.5]), Cosine(eps=0), process).over(z))

    t, weights = toy.quadrature(20, 30)
    exact = value(_objective(Cosine(eps=0), WEIGHTINGS[name], process=process), t, weights)
    assert math.isclose(exact, rows[name]["integral"], rel_tol=1e-9)
    for steps, due, _ in rows[name]["discrete [T,value,err]"][:4]:
        objective = _objective(Cosine(eps=0), WEIGHTINGS[name], steps, process=process)
        t = (torch.arange(steps, dtype=torch.float64) + 0.5) / steps
        assert math.isclose(value(objective, t, 1 / steps), due, rel_tol=1e-9)


MD4 = next(k for k in reference()["md4_jax"] if k.startswith("toy_md4_diffusion_loss"))


@pytest.mark.parametrize("key", list(reference()["md4_jax"][MD4]))
def test_md4s_own_loss_values(key):
    """At fixed z the ELBO's loss is what MD4's own code computes, continuous and discrete."""
    schedule, kind, tokens = key.split(",", 2)
    steps = None if kind == "cont" else int(kind.split("T=")[1])
    z = torch.tensor([ast.literal_eval(tokens.removeprefix("zt="))])
    objective = _objective(MASKING[schedule.removeprefix("schedule=")](), Elbo(), steps)
    plain = toy.PROCESS.plain_loss(toy.X, z, toy.context(z, None), None).sum()
    loss = objective.plain_weight(tensor(reference()["t_points"])) * plain
    due = tensor(reference()["md4_jax"][MD4][key])
    rtol = 2e-5 if steps is None else 1e-4  # in float32 its a_s - a_t cancels
    torch.testing.assert_close(loss, due, rtol=rtol, atol=0)


@given(
    levels=st.integers(2, 300),
    eps=st.sampled_from([1e-4, 1e-3, 0.05]),
    schedule=st.sampled_from([Cosine, Linear]),
)
@settings(max_examples=20)
def test_zero_logits_cost_exactly_log2_v_bits(levels, eps, schedule):
    """A network that knows nothing costs log2 V bits per dimension for any eps."""
    process = Masked().bind(DataSpec((5,), levels))
    first, last = Level.of(tensor([0.0, 1.0]), schedule(eps=eps), process).share.tolist()
    x = torch.zeros(1, 5, dtype=torch.int64)
    ends = Level.of(tensor([0.0, 1.0]), schedule(eps=eps), process)
    boundary = process.prior_kl(x, ends.select(1).over(x)) + process.reconstruction(
        x, ends.select(0).over(x), Noise.of(0, 1)
    )
    t, weights = toy.quadrature()
    level = Level.of(t, schedule(eps=eps), process)
    diffusion = (weights * level.elbo_weight * level.noise_share).sum() * 5 * math.log(levels)
    assert math.isclose(float(diffusion), (first - last) * 5 * math.log(levels), rel_tol=1e-9)
    bits = float(boundary + diffusion) / (5 * math.log(2))
    assert math.isclose(bits, math.log2(levels), rel_tol=1e-9)


def test_zero_logits_by_monte_carlo():
    """The estimator of the bound says the same within its error bars."""
    process = Masked().bind(DataSpec((8, 8, 1), 17))
    x = torch.randint(17, (2000, 8, 8, 1), generator=torch.Generator().manual_seed(0))

    def clueless(z, level):
        return CategoricalPrediction(torch.zeros(*z.shape, 17))

    bits = bound(process, Cosine(), clueless, x, Noise.of(0, 2000)).bits_per_dim(64)
    error = float(bits.std() / math.sqrt(len(bits)))
    assert abs(float(bits.mean()) - math.log2(17)) < 4 * error
    assert error < 0.1


def _exact_bound(process, schedule, table):
    """The bound on the table's average -log p with its exact denoiser, by enumeration."""
    z = every_state(process.data.shape, process.signature().in_states)
    t, weights = toy.quadrature(30, 30)
    level = Level.of(t, schedule, process)
    some = Level.of(tensor([0.5]), schedule, process).over(z)  # the posterior is free of the level
    said = table.predict(process)(z, some)
    total = 0.0
    ends = Level.of(tensor([0.0, 1.0]), schedule, process)
    for x, probability in zip(table.states, table.probabilities, strict=True):
        wide = x.expand(len(t), *x.shape)
        q = torch.stack(
            [process.log_likelihood(one.expand_as(wide), wide, level.over(wide)) for one in z], 1
        ).exp()
        plain = process.plain_loss(x.expand_as(z), z, said, some).flatten(1).sum(1)
        plain = torch.where((q > 0).any(0), plain, 0.0)
        total += probability * ((q @ plain) * level.elbo_weight * weights).sum()
        total += probability * process.prior_kl(x[None], ends.select(1).over(x[None]))[0]
        total += (
            probability
            * process.reconstruction(x[None], ends.select(0).over(x[None]), Noise.of(0, 1))[0]
        )
    return float(total)


@pytest.mark.parametrize("schedule", [Cosine, Linear])
def test_the_masked_bound_is_the_entropy(schedule):
    """With the exact denoiser: equal at eps = 0 to 1e-9, and above it by the stated margin else."""
    table, process = three_tokens(), Masked().bind(DataSpec((3,), 3))
    exact = _exact_bound(process, schedule(eps=0), table)
    assert math.isclose(exact, table.entropy, abs_tol=1e-9)
    with_eps = _exact_bound(process, schedule(), table)
    first, last = Level.of(tensor([0.0, 1.0]), schedule(), process).share.tolist()
    margin = 3 * (last + 1 - first) * math.log(3)
    assert table.entropy <= with_eps <= table.entropy + margin


def test_the_gaussian_bound_is_the_entropy():
    """With the exact denoiser of a discrete distribution, by quadrature in lambda."""
    process = Gaussian(predict="x").bind(DataSpec((1,), 3))
    table = TableOracle(torch.tensor([[0], [1], [2]]), tensor([0.2, 0.5, 0.3]))
    predict = table.predict(process)
    schedule = LinearLogSNR(log_snr_max=14.0, log_snr_min=-14.0)
    t = (torch.arange(2000, dtype=torch.float64) + 0.5) / 2000
    nodes = torch.linspace(-9, 9, 400, dtype=torch.float64)
    node_weights = (-(nodes**2) / 2).exp()
    node_weights = node_weights / node_weights.sum()
    level = Level.of(t, schedule, process)
    total = 0.0
    for x, probability in zip(
        process.encode(table.states).double(), table.probabilities, strict=True
    ):
        z = level.share.sqrt()[:, None] * x + level.noise_share.sqrt()[:, None] * nodes
        flat = z.reshape(-1, 1)
        here = level.select(torch.arange(2000).repeat_interleave(400)).over(flat)
        plain = process.plain_loss(x.expand_as(flat), flat, predict(flat, here), here)
        total += probability * (plain.reshape(2000, 400) @ node_weights * level.elbo_weight).mean()
    ends = Level.of(tensor([0.0, 1.0]), schedule, process)
    encoded = process.encode(table.states).double()
    boundary = process.prior_kl(encoded, ends.select(1).over(encoded)) @ table.probabilities
    assert math.isclose(float(total + boundary), table.entropy, abs_tol=2e-5)


def test_the_gaussian_bound_of_a_normal_is_exact():
    """For normal data the plain loss of the exact denoiser has a closed form at each level."""
    process = Gaussian().bind(DataSpec((1,), 2))
    oracle = MixtureOracle.normal(0.0, 0.7)
    n = torch.linspace(-8, 8, 801, dtype=torch.float64)
    weights = (-(n**2) / 2).exp() / (-(n**2) / 2).exp().sum()
    for lam in (-3.0, 0.0, 4.0):
        level = Level.at(tensor([lam]), process)
        x = (0.7 * n).repeat_interleave(801)[:, None]
        z = level.share.sqrt() * x + level.noise_share.sqrt() * n.repeat(801)[:, None]
        plain = process.plain_loss(x, z, oracle.predict(z, level.over(z)), level.over(z))
        got = float((plain.reshape(801, 801) * weights[:, None] * weights).sum())
        snr = math.exp(lam)
        assert math.isclose(got, snr * 0.49 / (2 * (1 + snr * 0.49)), rel_tol=1e-9)


def test_the_gaussian_bound_by_monte_carlo():
    """The estimator agrees with the entropy for every parametrisation of the same denoiser."""
    table = TableOracle(torch.tensor([[0, 1], [2, 2], [1, 0]]), tensor([0.5, 0.3, 0.2]))
    process = Gaussian().bind(DataSpec((2,), 3))
    x = process.encode(table.states.repeat_interleave(torch.tensor([3000, 1800, 1200]), 0))
    order = Noise.of(9, 6000).uniform("o").argsort()
    terms = bound(process, VPCosine(), table.predict(process), x[order], Noise.of(1, 6000))
    error = float(terms.nats.std() / math.sqrt(6000))
    assert abs(float(terms.nats.mean()) - table.entropy) < 4 * error + 0.01


def test_normalisers_divide_by_examples_or_by_units():
    """The batch mean is per example; the unit mean is per hidden token of the whole batch."""
    losses, units = torch.tensor([6.0, 2.0]), torch.tensor([3, 1])

    def alone(value):
        return value

    assert float(BatchMean()(losses, units, alone)) == 4.0
    assert float(UnitMean()(losses, units, alone)) == 2.0


def test_a_batch_that_hides_nothing_is_no_division_by_zero():
    """The unit mean of a batch without a hidden token is zero."""
    nothing = UnitMean()(torch.zeros(2), torch.zeros(2, dtype=torch.int64), lambda value: value)
    assert float(nothing) == 0.0


@pytest.mark.parametrize("normaliser", [BatchMean(), UnitMean()], ids=["batch", "units"])
def test_the_loss_of_a_global_batch_does_not_depend_on_the_split(normaliser):
    """The mean over ranks of each rank's loss is the loss of the whole batch."""
    objective = _objective(Cosine(), Elbo(), normaliser=normaliser)
    x, noise = toy.X.expand(12, -1), Noise.of(5, 12)
    whole = float(objective(toy.context, x, noise).loss)
    parts = [slice(0, 6), slice(6, 12)]
    units = []

    def remember(value):
        units.append(value)
        return value

    for part in parts:
        objective(toy.context, x[part], noise.select(part), remember)
    shared = torch.stack(units).mean() if units else None
    split = [
        float(objective(toy.context, x[part], noise.select(part), lambda _: shared).loss)
        for part in parts
    ]
    assert math.isclose(sum(split) / 2, whole, rel_tol=1e-6)


def test_per_position_levels_fit():
    """A schedule that differs by position multiplies each plain loss by its own weight."""
    t = torch.full((1, 6), 0.5, dtype=torch.float64)
    t[0, 3:] = 0.9
    objective = _objective(Cosine(), Elbo())
    z = torch.full((1, 6), toy.MASK)
    plain = toy.PROCESS.plain_loss(toy.X, z, toy.fixed(z, None), None)
    got = float((objective.plain_weight(t) * plain).sum())
    by_hand = sum(float(objective.plain_weight(t[:, n]) * plain[:, n]) for n in range(6))
    assert math.isclose(got, by_hand, rel_tol=1e-12)


def test_a_gradient_flows_to_the_network_and_only_through_the_loss():
    """The loss can be differentiated; the measurements beside it carry no graph."""
    logits = torch.zeros(6, 4, requires_grad=True)
    losses = _objective(Cosine(), Simple())(
        lambda z, level: CategoricalPrediction(logits.expand(len(z), -1, -1)),
        toy.X.expand(32, -1),
        Noise.of(0, 32),
    )
    losses.loss.backward()
    assert logits.grad is not None and bool((logits.grad != 0).any())
    assert not losses.per_example.requires_grad and not losses.elbo.requires_grad


@pytest.mark.parametrize("schedule", [VPCosine(), Flow(), EDMSchedule()])
def test_the_gaussian_objective_is_invariant_too(schedule):
    """With a linear denoiser of normal data the ELBO's integral depends on the ends alone."""
    process = Gaussian().bind(DataSpec((1,), 2))
    low, high = -4.0, 4.0
    t, weights = toy.quadrature()
    start, end = schedule.time(tensor([high, low])).tolist()
    inside = start + (end - start) * t
    level = Level.of(inside, schedule, process)
    plain = level.snr * 0.49 / (2 * (1 + level.snr * 0.49))
    for weighting in (Elbo(), Sigmoid(), EDM()):
        got = float((weighting.plain_weight(level) * plain * weights).sum() * (end - start))
        lam = low + (high - low) * t
        free = Level.at(lam, process)
        due = float(
            (weighting(free) * (free.snr * 0.49 / (2 * (1 + free.snr * 0.49))) * weights).sum()
            * (high - low)
        )
        assert math.isclose(got, due, rel_tol=1e-6)


def test_a_prediction_of_real_data_in_every_form_is_one_prediction():
    """x, eps, v and score of a prediction describe the same guess."""
    level = Level.at(tensor([[0.7]]), Gaussian())
    z, x = tensor([[0.4]]), tensor([[0.1]])
    by_x = RealPrediction(z, level, given_x=x)
    by_eps = RealPrediction(z, level, given_eps=by_x.eps)
    torch.testing.assert_close(by_eps.x, x)
    torch.testing.assert_close(by_eps.v, by_x.v)
    by_v = RealPrediction(z, level, given_v=by_x.v)
    torch.testing.assert_close((by_v.x, by_v.eps, by_v.score), (x, by_x.eps, by_x.score))
    torch.testing.assert_close(by_x.score, -by_x.eps / level.noise_share.sqrt())

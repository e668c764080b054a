"""Both processes: their laws, their formulas, their edges."""

from __future__ import annotations

import math

import attrs
import pytest
import torch
from elbowroom import DataSpec, Level, Noise, Process, Step
from elbowroom.contrib.uniform import Uniform
from elbowroom.errors import DataError
from elbowroom.plugins.conformance import check_process
from elbowroom.plugins.conformance.oracle import TableOracle
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.schedules.gaussian import EDM, Flow, LinearLogSNR, VPCosine
from elbowroom.plugins.schedules.masking import Cosine, Linear
from hypothesis import given, settings, strategies as st

from tests.helpers.reference import reference, tensor

PARAMETRISATIONS = ["eps", "x", "v", "flow", "edm"]


@pytest.mark.parametrize("process", [Masked(), Masked(fill="draw"), Gaussian()])
def test_built_in_processes_keep_every_law(process):
    """Each built-in process passes the kit that plugin authors use."""
    check_process(process)


@pytest.mark.parametrize(
    ("process", "schedule"),
    [
        (Masked(), Linear()),
        (Masked(), VPCosine()),
        (Gaussian(), Cosine(eps=1e-5)),
        (Gaussian(), Flow()),
        (Gaussian(predict="levels"), VPCosine()),
    ],
)
def test_any_schedule_serves_any_process(process, schedule):
    """The laws hold under the other process's schedules too."""
    check_process(process, schedule)


@given(
    lam_t=st.floats(-8, 8),
    rise=st.floats(1e-6, 10),
)
def test_step_prices_are_the_papers(lam_t, rise):
    """Masked (a_s - a_t)/(1 - a_t); Gaussian (SNR_s - SNR_t)/SNR_t."""
    here, to = tensor([lam_t]), tensor([lam_t + rise])
    a_t, a_s = float(here.sigmoid()), float(to.sigmoid())
    masked = float(Masked().step_price(here, to))
    assert math.isclose(masked, (a_s - a_t) / (1 - a_t), rel_tol=1e-6, abs_tol=1e-12)
    gaussian = float(Gaussian().step_price(here, to))
    assert math.isclose(gaussian, math.expm1(rise), rel_tol=1e-6)


@given(
    predict=st.sampled_from(PARAMETRISATIONS),
    lam=st.floats(-10, 10),
    x=st.floats(-1, 1),
    eps=st.floats(-3, 3),
)
def test_a_perfect_network_is_read_as_perfect(predict, lam, x, eps):
    """In every parametrisation, the output that says (x, eps) is read as (x, eps)."""
    process = Gaussian(predict=predict)
    level = Level.at(tensor([[lam]]), process)
    a, b = level.share.sqrt(), level.noise_share.sqrt()
    x, eps = tensor([[x]]), tensor([[eps]])
    z = a * x + b * eps
    sigma, c_in = (-level.log_snr / 2).exp(), ((-level.log_snr).exp() + 0.25).rsqrt()
    output = {
        "eps": eps,
        "x": x,
        "v": a * eps - b * x,
        "flow": eps - x,
        "edm": (x - 0.25 * c_in**2 * z / a) / (sigma * 0.5 * c_in),
    }[predict]
    prediction = process.read(output, z, level)
    torch.testing.assert_close(prediction.x, x, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(prediction.eps, eps, rtol=1e-6, atol=1e-8)
    assert float(process.plain_loss(x, z, prediction, level)) < 1e-10


@given(
    chances=st.lists(st.floats(0.01, 1), min_size=2, max_size=9),
    lam=st.floats(-8, 14),
    drawn=st.integers(0, 8),
    eps=st.floats(-3, 3),
)
def test_logits_over_levels_are_read_as_a_posterior_mean(chances, lam, drawn, eps):
    """With the true chances as output, x_hat is what Bayes' rule says: the oracle's."""
    table = TableOracle(
        torch.arange(len(chances))[:, None], tensor(chances) / float(tensor(chances).sum())
    )
    process = Gaussian(predict="levels").bind(DataSpec((1,), len(chances)))
    assert process.signature().out_states == len(chances)
    level = Level.at(tensor([[lam]]), process)
    x = process.encode(torch.tensor([[drawn % len(chances)]])).double()
    z = level.share.sqrt() * x + level.noise_share.sqrt() * eps
    ours = process.read(table.probabilities.log().reshape(1, 1, -1), z, level)
    torch.testing.assert_close(ours.x, table.predict(process)(z, level).x, rtol=1e-6, atol=1e-9)


def test_levels_need_no_learning_near_the_data():
    """A network that says nothing loses half a nat with v and nothing with levels, in float32."""
    x = torch.arange(17)[:, None]
    losses = {}
    for predict in ("v", "levels"):
        process = Gaussian(predict=predict).bind(DataSpec((1,), 17))
        level = Level.at(torch.full((17, 1), 12.9), process)
        z = process.corrupt(process.encode(x), level, Noise.of(0, 17))
        silent = torch.zeros(17, 1, 17) if predict == "levels" else torch.zeros(17, 1)
        loss = process.plain_loss(process.encode(x), z, process.read(silent, z, level), level)
        losses[predict] = float(loss.mean())
    assert losses["levels"] < 1e-6 < 0.1 < losses["v"]


def test_networks_see_what_their_papers_say():
    """Flow networks see (1-t) x + t eps; EDM networks see c_in (x + sigma eps)."""
    x, eps = tensor([[0.3]]), tensor([[-1.1]])
    t = 0.37
    level = Level.of(tensor([[t]]), Flow(eps=0), Gaussian())
    z = level.share.sqrt() * x + level.noise_share.sqrt() * eps
    seen = Gaussian(predict="flow").network_input(z, level)
    torch.testing.assert_close(seen, (1 - t) * x + t * eps)
    level = Level.of(tensor([[t]]), EDM(eps=0), Gaussian())
    z = level.share.sqrt() * x + level.noise_share.sqrt() * eps
    sigma = (-level.log_snr / 2).exp()
    seen = Gaussian(predict="edm").network_input(z, level)
    torch.testing.assert_close(seen, (x + sigma * eps) / (sigma**2 + 0.25).sqrt())


@given(levels=st.integers(2, 256))
@settings(max_examples=20)
def test_encoding_is_centred_and_undone(levels):
    """Level k becomes (2k + 1)/V - 1, inside (-1, 1), and back."""
    process = Gaussian().bind(DataSpec((1,), levels))
    every = torch.arange(levels)[:, None]
    x = process.encode(every)
    assert abs(float(x.mean())) < 1e-6 and float(x.abs().max()) < 1
    clean = Level.at(tensor([[20.0]]), process).over(x, torch.float32)
    assert torch.equal(process.decode(x, None, clean, Noise.of(0, levels)), every)


@pytest.mark.parametrize("process", [Masked(), Gaussian()])
@pytest.mark.parametrize("wrong", [-1, 17])
def test_data_out_of_range_is_refused(process, wrong):
    """Integers outside 0 .. V-1 are an error that says so."""
    with pytest.raises(ValueError, match="allowed are 0 to 16"):
        process.bind(DataSpec((1,), 17)).encode(torch.tensor([[3], [wrong]]))


def test_an_unbound_process_says_so():
    """A process that was not bound to data names the call that is missing."""
    with pytest.raises(RuntimeError, match="bind"):
        Masked().prior(Noise.of(0, 1))


def test_signatures():
    """Masked: V + 1 states in, V out, no level; Gaussian: real values and the level in, V out."""
    spec = DataSpec((8, 8, 1), 17, 10)
    masked, gaussian = Masked().bind(spec).signature(), Gaussian().bind(spec).signature()
    assert (masked.in_states, masked.out_states, masked.needs_level) == (18, 17, False)
    assert (gaussian.in_states, gaussian.out_states, gaussian.needs_level) == (None, 17, True)
    assert Gaussian(predict="v").bind(spec).signature().out_states is None
    assert masked.classes == gaussian.classes == 10 and masked.shape == (8, 8, 1)


def test_md4s_reconstruction():
    """The masked reconstruction is MD4's: 64 x 64 x 3 dimensions, V = 256."""
    process = Masked().bind(DataSpec((64, 64, 3), 256))
    x = torch.zeros(1, 64, 64, 3, dtype=torch.int64)
    first = Level.of(tensor([0.0]), Cosine(), process).over(x)
    nats = float(process.reconstruction(x, first, Noise.of(0, 1)))
    assert math.isclose(nats, reference()["md4_jax"]["recon_loss_64x64x3_V256_nats"], rel_tol=1e-3)


def test_md4s_reveal_probabilities():
    """Steps reveal tokens with the probabilities of MD4's own sampler."""
    for key, rows in reference()["md4_jax"][
        "sampling_256_steps rows=[i,t,s,alpha_t,alpha_s,unmask_prob] float32"
    ].items():
        schedule = Cosine() if "schedule=cosine" in key else Linear()
        for _, t, s, a_t, a_s, reveal in rows:
            here, to = schedule.log_snr(tensor([t, s])).split(1)
            assert math.isclose(float(here.sigmoid()), a_t, rel_tol=2e-3)
            assert math.isclose(float(to.sigmoid()), a_s, rel_tol=2e-3)
            # in float32 the original's a_s - a_t and its t cancel near t = 1
            price = float(Masked().step_price(here, to))
            assert math.isclose(price, reveal, rel_tol=5e-3, abs_tol=3e-7)


def test_hidden_tokens_are_asked_and_visible_ones_are_not():
    """The plain loss is the cross-entropy at hidden positions and zero at visible ones."""
    process = Masked().bind(DataSpec((3,), 4))
    x, z = torch.tensor([[0, 1, 2]]), torch.tensor([[4, 1, 4]])
    logits = torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(0))
    loss = process.plain_loss(x, z, process.read(logits, z, None), None)
    due = -logits.log_softmax(-1)
    assert float(loss[0, 1]) == 0
    torch.testing.assert_close(loss[0, 0], due[0, 0, 0])
    torch.testing.assert_close(loss[0, 2], due[0, 2, 2])
    assert process.units(z).tolist() == [2]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_losses_are_computed_in_float32_or_better(dtype):
    """Half-precision network outputs are widened before any loss."""
    spec = DataSpec((2,), 4)
    masked, x, z = Masked().bind(spec), torch.tensor([[0, 1]]), torch.tensor([[4, 4]])
    out = torch.zeros(1, 2, 4, dtype=dtype)
    assert masked.plain_loss(x, z, masked.read(out, z, None), None).dtype == torch.float32
    for gaussian, out in (
        (Gaussian("levels").bind(spec), torch.zeros(1, 2, 4, dtype=dtype)),
        (Gaussian("v").bind(spec), torch.zeros(1, 2, dtype=dtype)),
    ):
        level = Level.at(torch.zeros(1, 1), gaussian)
        real = gaussian.encode(x)
        said = gaussian.read(out, real, level)
        assert gaussian.plain_loss(real, real, said, level).dtype == torch.float32


def test_the_gaussian_posterior_is_the_corrected_one():
    """The reverse mean is (1-k) a_s x + k (a_s/a_t) z with variance b_s^2 (1-k), by Bayes' rule."""
    process = Gaussian(predict="x").bind(DataSpec((1,), 2))
    n = 200_000
    here, to = (Level.at(tensor([[lam]]), process) for lam in (-1.0, 0.5))
    x, z = 0.4, 0.9
    step = Step(torch.zeros(n, dtype=torch.int64), here, to, here)
    wide = torch.full((n, 1), z, dtype=torch.float64)
    prediction = process.read(torch.full((n, 1), x, dtype=torch.float64), wide, here)
    drawn = process.reverse(wide, prediction, step, Noise.of(0, n))
    a_t, a_s = (float(level.share.sqrt()) for level in (here, to))
    b_t2, b_s2 = (float(level.noise_share) for level in (here, to))
    # z_t = (a_t/a_s) z_s + noise: two normal factors of z_s
    noise = b_t2 - (a_t / a_s) ** 2 * b_s2
    precision = 1 / b_s2 + (a_t / a_s) ** 2 / noise
    mean = (a_s * x / b_s2 + (a_t / a_s) * z / noise) / precision
    assert abs(float(drawn.mean()) - mean) < 5 * math.sqrt(1 / precision / n)
    assert math.isclose(float(drawn.var()), 1 / precision, rel_tol=0.02)


@pytest.mark.parametrize("steps", [4, 64])
def test_active_steps_are_where_tokens_are_revealed(steps):
    """A masked sample is active exactly in the steps in which some token's time comes."""
    process = Masked().bind(DataSpec((6,), 3))
    t = 1 - torch.arange(steps + 1, dtype=torch.float64) / steps
    levels, noise = Level.of(t, Cosine(), process), Noise.of(0, 200)
    active = process.active_steps(levels, noise, process.prior(noise))
    assert active.shape == (200, steps)
    share = levels.share
    due = 1 - (1 - (share[1:] - share[:-1]) / (1 - share[0])) ** 6  # some of six tokens
    error = (due * (1 - due) / 200).sqrt()
    assert bool(((active.double().mean(0) - due).abs() < 5 * error + 1e-9).all())


def test_processes_are_components_of_the_contract():
    """Both are frozen values that compare by their options."""
    assert isinstance(Masked(), Process) and Gaussian(predict="x") == Gaussian(predict="x")
    assert Gaussian(predict="x") != Gaussian(predict="v")
    with pytest.raises(ValueError, match="data_std"):
        Gaussian(data_std=0)


def test_linear_log_snr_serves_both():
    """VDM's schedule, natural to neither, serves both processes."""
    for process in (Masked(), Gaussian()):
        check_process(process, LinearLogSNR(log_snr_max=11.0, log_snr_min=-11.0))


@pytest.mark.parametrize("levels", [2, 3, 16, 17, 100, 256])
def test_the_natural_gaussian_path_ends_where_values_can_be_read(levels):
    """Its first level is the least log-SNR at which an inner value costs at most 0.005 bit."""
    process = Gaussian().bind(DataSpec((1,), levels))
    top = process.natural_schedule_options()["log_snr_max"]

    def bits(log_snr: float) -> float:
        # -log p(k | z) of a value among endless neighbours 2/V apart, the noise integrated out
        noise = torch.linspace(-9, 9, 200_001, dtype=torch.float64)
        weight = (-(noise**2) / 2).exp()
        steps = torch.arange(-8, 9, dtype=torch.float64)[:, None] * (2 / levels)
        sigma = math.exp(-log_snr / 2)
        cost = torch.logsumexp((steps * noise / sigma) - steps**2 / (2 * sigma**2), 0)
        return float((weight * cost).sum() / weight.sum()) / math.log(2)

    assert bits(top) <= 0.005 < bits(top - 0.02)


def test_a_process_without_data_leaves_its_natural_schedule_as_it_is():
    """Only bound data says how many levels there are; masked paths do not depend on them."""
    assert Gaussian().natural_schedule_options() == {}
    assert Masked().bind(DataSpec((1,), 17)).natural_schedule_options() == {}


@attrs.frozen
class Renamed(Gaussian):
    """A subclass that calls ``super()``, rebuilt by attrs."""

    def corrupt(self, x, level, noise):
        return super().corrupt(x, level, noise)


def _with_levels(process, level, to, x, noise):
    """The result of each method that takes a level."""
    z = process.corrupt(x, level, noise)
    output = noise.normal("output", (*x.shape[1:], 8))
    if isinstance(process, Gaussian):
        output = output[..., 0]
    seen = process.network_input(z, level)
    prediction = process.read(output, z=z, level=level)
    step = Step(torch.zeros(len(x), dtype=torch.long), level, to, level)
    return {
        "corrupt": z,
        "network_input": seen,
        "log_likelihood": process.log_likelihood(z, x, level),
        "plain_loss": process.plain_loss(x, z, prediction, level=level),
        "step_kl": process.step_kl(x, z, prediction, level, to),
        "prior_kl": process.prior_kl(x, level),
        "reconstruction": process.reconstruction(x, level, noise),
        "reverse": process.reverse(z, prediction, step, noise),
        "decode": process.decode(z, prediction, level, noise),
    }


@pytest.mark.parametrize(
    "process", [Gaussian("v"), Gaussian("edm"), Masked(), Uniform(), Renamed("v")], ids=str
)
def test_one_level_per_example_is_aligned_with_the_batch(process):
    """A level [B] is that of ``Level.over``, also where B is the size of the last dimension."""
    process = process.bind(DataSpec((4, 3), levels=8))
    noise, t = Noise.of(0, 3), torch.tensor([0.1, 0.5, 0.9])
    x = process.encode(noise.integers("x", 8, (4, 3)))
    level, to = (Level.of(at, VPCosine(), process) for at in (t, t - 0.05))
    found = _with_levels(process, level, to, x, noise)
    due = _with_levels(process, level.over(x), to.over(x), x, noise)
    for name, value in found.items():
        assert value.equal(due[name]), name


@pytest.mark.parametrize("process", [Gaussian(), Masked(), Uniform()], ids=str)
def test_levels_of_another_batch_are_refused(process):
    """Three levels for five examples are an error, although three channels would broadcast."""
    process = process.bind(DataSpec((4, 3), levels=8))
    noise = Noise.of(0, 5)
    x = process.encode(noise.integers("x", 8, (4, 3)))
    level = Level.of(torch.tensor([0.1, 0.5, 0.9]), VPCosine(), process)
    with pytest.raises(DataError, match=r"level of shape \[3\] for data of shape \[5, 4, 3\]"):
        process.corrupt(x, level, noise)

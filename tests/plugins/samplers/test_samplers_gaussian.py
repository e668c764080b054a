"""Samplers of Gaussian diffusion against exactly known laws."""

from __future__ import annotations

import itertools
import math

import attrs
import pytest
import torch
from elbowroom import DataSpec, EvenGrid, Noise, Schedule
from elbowroom.plugins.conformance.oracle import MixtureOracle, TableOracle
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.samplers.ancestral import Ancestral
from elbowroom.plugins.samplers.ddim import DDIM
from elbowroom.plugins.samplers.grid import CosineGrid, LogSNRGrid, RhoGrid
from elbowroom.plugins.samplers.heun import Heun
from elbowroom.plugins.samplers.multistep import Multistep
from elbowroom.plugins.schedules.gaussian import EDM, Flow, LinearLogSNR, VPCosine
from elbowroom.plugins.schedules.masking import Cosine, Linear
from sampling_laws import MIXTURE, OracleModel, end, gaussian_model
from scipy import stats

AGREES, DIFFERS = 1e-3, 1e-6
MEAN, STD = 0.3, 0.4
NORMAL = MixtureOracle.normal(MEAN, STD)
SCHEDULES = [VPCosine(), Flow(), LinearLogSNR()]


def expected_data(a: float, b: float) -> tuple[float, float]:
    """x_hat = gain z + offset for data N(MEAN, STD^2)."""
    gain = a * STD**2 / (a**2 * STD**2 + b**2)
    return gain, MEAN * (1 - a * gain)


def normal_law(levels, eta: float) -> tuple[float, float]:
    """Mean and standard deviation of z/a at the end of a DDIM chain, by propagating both.

    In the words of the paper: z_s = a_s x_hat + sqrt(b_s^2 - sigma^2) eps_hat + sigma eps with
    sigma^2 = eta^2 (b_s^2/b_t^2)(1 - a_t^2/a_s^2).
    """
    mean, variance = 0.0, 1.0
    steps = itertools.pairwise(zip(levels.share.tolist(), levels.noise_share.tolist(), strict=True))
    for (s_t, n_t), (s_s, n_s) in steps:
        a_t, a_s, b_t = math.sqrt(s_t), math.sqrt(s_s), math.sqrt(n_t)
        gain, offset = expected_data(a_t, b_t)
        fresh = eta**2 * (n_s / n_t) * (1 - s_t / s_s)
        direction = math.sqrt(n_s - fresh)
        of_z = a_s * gain + direction * (1 - a_t * gain) / b_t
        constant = a_s * offset - direction * a_t * offset / b_t
        mean = of_z * mean + constant
        variance = of_z**2 * variance + fresh
    return mean / a_s, math.sqrt(variance) / a_s


def p_value(x: torch.Tensor, mean: float, std: float) -> float:
    return stats.kstest(x.numpy(), stats.norm(mean, std).cdf).pvalue


def mixture_p_value(x: torch.Tensor) -> float:
    def cdf(value):
        parts = zip(MIXTURE.weights, MIXTURE.means, MIXTURE.stds, strict=True)
        return sum(w.item() * stats.norm(m.item(), s.item()).cdf(value) for w, m, s in parts)

    return stats.kstest(x.numpy(), cdf).pvalue


# -- the law of each step


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("steps", [1, 3, 10])
def test_ancestral_samples_of_normal_data_have_their_exact_law(schedule, steps):
    """With few steps the chain's law differs from the data's, and it is this law that comes out."""
    model, sampler = gaussian_model(NORMAL, schedule), Ancestral(steps)
    assert p_value(end(sampler, model), *normal_law(sampler.levels(model), 1.0)) > AGREES


@pytest.mark.parametrize("eta", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("grid", [EvenGrid(), CosineGrid(), LogSNRGrid(), RhoGrid()], ids=repr)
def test_ddim_samples_of_normal_data_have_their_exact_law(grid, eta):
    """For every eta and grid, the law of the chain in closed form is what comes out."""
    model, sampler = gaussian_model(NORMAL), DDIM(6, grid, eta=eta)
    assert p_value(end(sampler, model), *normal_law(sampler.levels(model), eta)) > AGREES


@attrs.frozen
class Quiet(Gaussian):
    """Takes the variance of the step for its standard deviation's bound: a little too small."""

    def reverse(self, z, prediction, step, noise):
        right = Gaussian.reverse(self, z, prediction, step, noise)
        fresh = noise.at(step.index).normal("reverse", z.shape[1:], z.dtype)
        std = (step.to.noise_share * -torch.expm1(step.level.log_snr - step.to.log_snr)).sqrt()
        return right - 0.1 * std.to(z.dtype) * fresh


@attrs.frozen
class Biased(Gaussian):
    """Mixes data and z in slightly wrong proportions."""

    def reverse(self, z, prediction, step, noise):
        return Gaussian.reverse(self, 0.95 * z, prediction, step, noise)


@pytest.mark.parametrize("process", [Quiet(), Biased()])
def test_the_check_of_the_law_notices_a_wrong_step(process):
    """A step with a wrong variance, or a wrong mean, fails the check."""
    right, wrong = gaussian_model(NORMAL), gaussian_model(NORMAL, process=process)
    law = normal_law(Ancestral(10).levels(right), 1.0)
    assert p_value(end(Ancestral(10), wrong), *law) < DIFFERS


def test_the_check_of_ddim_notices_a_wrong_eta():
    """Samples of one eta do not pass for those of another."""
    model, sampler = gaussian_model(NORMAL), DDIM(6, eta=0.5)
    assert p_value(end(sampler, model), *normal_law(sampler.levels(model), 1.0)) < DIFFERS


# -- the law of the data


@pytest.mark.parametrize(
    "sampler",
    [
        Ancestral(500),
        DDIM(500),
        DDIM(500, eta=0.5),
        Heun(60, LogSNRGrid()),
        Heun(60, RhoGrid()),
        Heun(200, LogSNRGrid(), churn=20.0),
        Heun(200, LogSNRGrid(), churn=20.0, churn_min=0.05, churn_max=5.0),
        Multistep(100),
    ],
    ids=str,
)
def test_many_steps_sample_the_data(sampler):
    """With enough steps and an exact denoiser every sampler finds a mixture's law."""
    assert mixture_p_value(end(sampler, gaussian_model(MIXTURE), 8000)) > AGREES


@attrs.frozen
class Loud(Heun):
    """Adds more noise than it says."""

    def _churned(self, path, z, step):
        return Heun._churned(attrs.evolve(self, churn_noise=1.3), path, z, step)


def test_the_check_of_the_mixture_notices_too_much_churn():
    """Churn whose noise does not match its level fails the check."""
    sampler = Loud(200, LogSNRGrid(), churn=40.0)
    assert mixture_p_value(end(sampler, gaussian_model(MIXTURE), 8000)) < DIFFERS


# -- identities


def exact_flow(model, z: torch.Tensor, levels) -> torch.Tensor:
    """Where the probability flow takes z, for normal data: y/sqrt(STD^2 + sigma^2) stays."""
    sigma_1, sigma_0 = (-levels.log_snr[[0, -1]] / 2).exp()
    y = z / levels.share[0].sqrt() - MEAN
    return (MEAN + y * ((STD**2 + sigma_0**2) / (STD**2 + sigma_1**2)).sqrt()) * levels.share[
        -1
    ].sqrt()


@pytest.mark.parametrize(("sampler", "order"), [(DDIM, 1), (Heun, 2)])
def test_the_order_of_convergence(sampler, order):
    """Halving the step halves DDIM's error and quarters Heun's."""
    model = gaussian_model(NORMAL, VPCosine(eps=0.02))
    z = torch.linspace(-2, 2, 9, dtype=torch.float64)[:, None]
    errors = []
    for steps in (40, 80):
        walk = sampler(steps, LogSNRGrid())
        frames = list(walk.frames(model, Noise.of(0, 9), z=z))
        errors.append((frames[steps].z - exact_flow(model, z, walk.levels(model))).abs().max())
    assert math.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.25)


def test_ddim_with_eta_one_is_ancestral_sampling():
    """eta = 1 gives the very samples of ancestral sampling, up to rounding."""
    model = gaussian_model(MIXTURE)
    assert torch.allclose(end(DDIM(50, eta=1.0), model), end(Ancestral(50), model), atol=2e-4)


@pytest.mark.parametrize("steps", [1, 4, 50])
def test_flow_matching_euler_is_ddim_on_the_flow_grid(steps):
    """Euler steps along eps - x in y = z/(a + b) are DDIM steps on the flow schedule."""
    model = gaussian_model(MIXTURE, Flow())
    z = torch.linspace(-2, 2, 9, dtype=torch.float64)[:, None]
    frames = list(DDIM(steps).frames(model, Noise.of(0, 9), z=z))
    levels = DDIM(steps).levels(model)
    signal, noise = levels.share.sqrt(), levels.noise_share.sqrt()
    y = z / (signal[0] + noise[0])
    for i in range(steps):
        here = levels.select(torch.full((9,), i)).over(z)
        prediction = model.predict(y * (signal[i] + noise[i]), here, None)
        time = noise / (signal + noise)
        y = y + (time[i + 1] - time[i]) * (prediction.eps - prediction.x)
    assert torch.allclose(frames[steps].z, y * (signal[-1] + noise[-1]), atol=1e-9)


def test_the_flow_grid_is_uniform_in_its_own_time():
    """On the flow schedule a uniform grid is uniform in b/(a + b)."""
    levels = DDIM(10).levels(gaussian_model(MIXTURE, Flow()))
    signal, noise = levels.share.sqrt(), levels.noise_share.sqrt()
    steps = (noise / (signal + noise)).diff()
    assert torch.allclose(steps, steps[0].expand(10), rtol=1e-9)


SAMPLERS = [Ancestral(8), DDIM(8), DDIM(8, eta=0.7), Heun(8), Heun(8, churn=4.0), Multistep(8)]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_a_path_ends_with_the_expected_data(sampler):
    """A sample is what the model expects at the end of its path, one call after the last step."""
    model = gaussian_model(MIXTURE)
    *_, before, last = sampler.frames(model, Noise.of(0, 20))
    levels = sampler.levels(model)
    level = levels.select(torch.full((20,), len(levels.log_snr) - 1)).over(before.z)
    clean = model.predict(before.z, level, None)
    assert torch.equal(last.x, model.process.decode(before.z, clean, level, Noise.of(0, 20)))
    assert (last.calls == (15 if isinstance(sampler, Heun) else 9)).all()


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
@pytest.mark.parametrize(
    "schedule",
    [VPCosine(), VPCosine(log_snr_max=6.0), Flow(), EDM(), LinearLogSNR(), Cosine(), Linear()],
    ids=str,
)
def test_a_point_mass_is_drawn_exactly(sampler, schedule):
    """Where all data are one picture of 256 levels, every pixel of every sample is right."""
    picture = torch.arange(256).reshape(1, 256)
    process = Gaussian().bind(DataSpec((256,), 256))
    model = OracleModel(process, schedule, TableOracle.point_mass(picture[0]).predict(process))
    assert torch.equal(sampler.sample(model, Noise.of(1, 8)).x, picture.expand(8, -1))


def test_heun_without_churn_is_deterministic():
    """The same start leads to the same end, whatever the seed."""
    model, z = gaussian_model(MIXTURE), torch.linspace(-2, 2, 5)[:, None]
    ends = [list(Heun(8).frames(model, Noise.of(seed, 5), z=z))[-1].z for seed in (0, 1)]
    assert torch.equal(*ends)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
@pytest.mark.parametrize("schedule", [VPCosine(), EDM()])
def test_samples_do_not_depend_on_the_batch_size(sampler, schedule):
    """A seed gives the same samples, whatever batches they are drawn in."""
    model = gaussian_model(MIXTURE, schedule)
    whole = sampler.sample(model, Noise.of(3, 20)).x
    for size in (1, 7):
        parts = [
            sampler.sample(model, Noise(3, torch.arange(20)[k : k + size], 20)).x
            for k in range(0, 20, size)
        ]
        assert torch.equal(torch.cat(parts), whole)


@pytest.mark.parametrize("sampler", [Ancestral(20), DDIM(20), Heun(20), Multistep(20)], ids=str)
def test_samples_stay_in_the_precision_of_the_model(sampler):
    """float32 paths stay float32, though their levels are computed in float64."""
    assert all(
        frame.z.dtype == torch.float32
        for frame in sampler.frames(gaussian_model(MIXTURE), Noise.of(0, 2))
    )


class Steep(Schedule):
    """A schedule whose ends are as far apart as any."""

    def log_snr(self, t):
        return 20 - 40 * t


@pytest.mark.parametrize(
    "sampler", [Ancestral(1000), DDIM(1000, eta=1.0), Heun(200), Multistep(300)], ids=str
)
def test_samplers_survive_extreme_levels(sampler):
    """lambda from -20 to 20 in float32 leaves samples finite and right."""
    x = end(sampler, gaussian_model(MIXTURE, Steep()), 2000)
    assert x.isfinite().all()
    assert mixture_p_value(x) > AGREES

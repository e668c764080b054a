"""Multistep solvers against their formula, diffusers' code and exactly known laws."""

from __future__ import annotations

import math

import pytest
import torch
from elbowroom import DataSpec, EvenGrid, IncompatibleError, Level, Noise, RealPrediction
from elbowroom.plugins.conformance.law import chi_square
from elbowroom.plugins.conformance.oracle import TableOracle
from elbowroom.plugins.diffusers.sampler import DiffusersSampler
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.samplers.ddim import DDIM
from elbowroom.plugins.samplers.grid import CosineGrid, LogSNRGrid, RhoGrid
from elbowroom.plugins.samplers.heun import Heun
from elbowroom.plugins.samplers.multistep import Multistep
from elbowroom.plugins.samplers.part_of_schedule import PartOfSchedule
from elbowroom.plugins.schedules.gaussian import EDM, Flow, LinearLogSNR, VPCosine
from hypothesis import given, strategies as st
from sampling_laws import MIXTURE, OracleModel, divergence, end, gaussian_model, p_value, table
from scipy.integrate import quad

AGREES, DIFFERS = 1e-3, 1e-6
SCHEDULES = [VPCosine(), Flow(), EDM(), LinearLogSNR()]


def levels_model(oracle: TableOracle, shape: tuple[int, ...], values: int) -> OracleModel:
    """The exact denoiser of a table, which says how likely each value of an element is."""
    process = Gaussian().bind(DataSpec(shape, values))
    one_hot = torch.nn.functional.one_hot(oracle.states, values).double()
    of_values = (2 * torch.arange(values).double() + 1) / values - 1

    def predict(z: torch.Tensor, level: Level) -> RealPrediction:
        posterior = oracle.posterior(process, z, level)
        marginal = torch.einsum("bs,s...->b...", posterior, one_hot)
        a, b2 = level.share.double().sqrt().unsqueeze(-1), level.noise_share.double().unsqueeze(-1)
        known = (z.double().unsqueeze(-1) - a * of_values) ** 2 / (2 * b2)
        with torch.no_grad():
            return process.read(marginal.log() + known, z, level)

    return OracleModel(process, VPCosine(), predict)


# -- the steps


def walked_out(model: OracleModel, levels: Level, z: torch.Tensor) -> torch.Tensor:
    """z at the last level if each guess goes on as straight in lambda = log(a/b) as it came.

    In the paper's words, z_s/b_s = z_t/b_t + the integral of e^lambda x_hat over the step.
    """
    a, b = levels.share.sqrt(), levels.noise_share.sqrt()
    lam = (a / b).log().tolist()
    guesses = []
    for i in range(1, len(lam)):
        guesses.append(model.predict(z, levels.select(i - 1).over(z), None).x.double())
        slope = (guesses[-1] - guesses[-2]) / (lam[i - 1] - lam[i - 2]) if i > 1 else 0 * z
        here, to = lam[i - 1], lam[i]
        held, _ = quad(math.exp, here, to)
        moving, _ = quad(lambda at, here=here: math.exp(at) * (at - here), here, to)
        z = b[i] * (z / b[i - 1] + held * guesses[-1] + moving * slope)
    return z


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("grid", [EvenGrid(), CosineGrid(), LogSNRGrid(), RhoGrid()], ids=str)
@pytest.mark.parametrize("ends", [(None, None), (-3.0, 2.5)], ids=str)
def test_steps_are_the_integral_of_a_straight_guess(schedule, grid, ends):
    """On every schedule and grid, also where steps are not alike."""
    model, sampler = gaussian_model(MIXTURE, schedule), Multistep(6, grid, *ends)
    z = torch.linspace(-2, 2, 50, dtype=torch.float64)[:, None]
    *_, last = sampler.frames(model, Noise.of(0, 50), z=z)
    assert last.z.allclose(walked_out(model, sampler.levels(model), z), atol=1e-9)


@pytest.mark.parametrize("steps", [1, 4, 9])
def test_it_draws_what_diffusers_draws(steps):
    """DPM-Solver++ on the same levels; its last step to the data is our last look."""
    model, noise = gaussian_model(MIXTURE), Noise.of(0, 400)
    ours = Multistep(steps).sample(model, noise)
    their = DiffusersSampler(steps + 1, LogSNRGrid(), options={"solver_type": "heun"})
    theirs = their.sample(model, noise)
    assert torch.equal(ours.calls, theirs.calls)
    near = (ours.x - theirs.x).abs()
    assert near.max() <= 1 and (near > 0).double().mean() < 0.02  # of 256 values: float32 there


def test_one_step_is_ddims():
    """Without a guess before it, a step is first order."""
    model, noise = gaussian_model(MIXTURE), Noise.of(0, 400)
    assert torch.equal(
        Multistep(1, EvenGrid()).sample(model, noise).x, DDIM(1).sample(model, noise).x
    )


def test_the_error_falls_with_the_square_of_the_steps():
    """Second order: twice the steps, a quarter of the error; DDIM's is halved."""
    model = gaussian_model(MIXTURE)
    right = end(Heun(2000, LogSNRGrid()), model, 200)

    def error(sampler) -> float:
        return float((end(sampler, model, 200) - right).abs().mean())

    assert 3.3 < error(Multistep(80)) / error(Multistep(160)) < 4.8
    assert 1.7 < error(DDIM(80, LogSNRGrid())) / error(DDIM(160, LogSNRGrid())) < 2.4


def test_its_calls_are_its_steps_and_the_last_look():
    """One call at each level."""
    model = gaussian_model(MIXTURE)
    assert Multistep(3, begin=-4.0, end=4.0).sample(model, Noise.of(0, 5)).calls.tolist() == [4] * 5
    assert model.rows == 20


def test_clip_keeps_guesses_in_the_datas_range():
    """A network that expects too much is held back."""

    def far(z, level):
        return RealPrediction(z, level, given_x=torch.full_like(z, 7.0))

    model = OracleModel(Gaussian().bind(DataSpec((1,), 5)), VPCosine(), far)
    *_, held = Multistep(5, clip=True).frames(model, Noise.of(0, 3))
    *_, free = Multistep(5).frames(model, Noise.of(0, 3))
    assert held.z.max() < 1 < 6 < free.z.min()


# -- where the path begins and ends


@given(st.sampled_from(SCHEDULES), st.floats(-4.5, 0.0), st.floats(0.1, 5.0), st.integers(1, 9))
def test_a_part_of_a_schedule_is_a_schedule(schedule, begin, end, steps):
    """Its ends are those asked for, its inverse and its rate go with it."""
    part = PartOfSchedule.of(schedule, begin, end)
    ends = part.log_snr(torch.tensor([1.0, 0.0], dtype=torch.float64))
    assert ends.tolist() == pytest.approx([begin, end], abs=1e-6)
    t = torch.linspace(0.05, 0.95, 7, dtype=torch.float64)
    assert part.time(part.log_snr(t)).allclose(t, atol=1e-6)
    step = 1e-5
    slope = (part.log_snr(t - step) - part.log_snr(t + step)) / (2 * step)
    assert part.rate(t).allclose(slope, rtol=1e-3)
    lam = part.log_snr(LogSNRGrid().times(steps, part))
    assert lam.diff().tolist() == pytest.approx([(end - begin) / steps] * steps, abs=1e-5)


@pytest.mark.parametrize(
    "ends", [(-50.0, None), (None, 50.0), (2.0, 1.0), (1.0, 1.0), (30.0, None)], ids=str
)
def test_ends_outside_the_schedule_are_refused(ends):
    """The network was never asked there."""
    with pytest.raises(IncompatibleError, match="between the schedule's ends"):
        Multistep(3, begin=ends[0], end=ends[1]).sample(gaussian_model(MIXTURE), Noise.of(0, 2))


@given(st.integers(200, 1500))
def test_the_schedules_own_ends_are_inside(hundredths):
    """Whatever rounding makes of them."""
    end = hundredths / 100
    for schedule in (VPCosine(log_snr_max=end), Flow(log_snr_max=end), EDM(log_snr_max=end)):
        part = PartOfSchedule.of(schedule, None, end)
        assert float(part.log_snr(torch.zeros((), dtype=torch.float64))) == pytest.approx(end)


def test_levels_are_at_times_of_the_whole_schedule():
    """Whoever reads their times finds the same levels there."""
    model = gaussian_model(MIXTURE)
    levels = Multistep(3, begin=-4.0, end=4.0).levels(model)
    assert levels.log_snr.tolist() == pytest.approx([-4, -4 / 3, 4 / 3, 4], abs=1e-6)
    assert model.schedule.log_snr(levels.t).allclose(levels.log_snr)


@pytest.mark.parametrize("end", [math.nan, math.inf])
def test_ends_are_numbers(end):
    """NaN compares as nothing, and would pass for an end."""
    with pytest.raises(ValueError, match="end"):
        Multistep(3, end=end)


# -- values that are drawn


LOPSIDED = TableOracle(
    torch.tensor([[0], [1], [4]]), torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
)


@given(st.floats(-6, 6), st.floats(-2, 2))
def test_values_are_drawn_as_likely_as_the_network_says(log_snr, z):
    """Uniforms that are spread evenly come to each value in its share."""
    model, count = levels_model(LOPSIDED, (1,), 5), 2000
    z = torch.full((count, 1), z, dtype=torch.float64)
    level = Level.at(torch.tensor(log_snr, dtype=torch.float64), model.process).over(z)
    u = (torch.arange(count).double()[:, None] + 0.5) / count
    prediction = model.predict(z, level, None)
    x = model.process.decode(
        z, RealPrediction(z, level, given_x=prediction.draw(u)), level, Noise.of(0, count)
    )
    share = torch.bincount(x.flatten(), minlength=5).double() / count
    right = torch.zeros(5, dtype=torch.float64)
    right[[0, 1, 4]] = LOPSIDED.posterior(model.process, z[:1], level.select(slice(0, 1)))[0]
    assert share.allclose(right, atol=1.01 / count)
    assert prediction.x[0].item() == pytest.approx(float(prediction.draw(u).mean()), abs=2 / count)


@pytest.mark.parametrize("end", [-1.0, 1.0, 4.0])
def test_drawn_values_of_one_element_are_exact_wherever_the_path_ends(end):
    """An element alone has nothing to depend on; the nearest value is not its law."""
    model = levels_model(LOPSIDED, (1,), 5)
    law = 10_000 * LOPSIDED.probabilities

    def agreement(**options) -> float:
        x = Multistep(60, end=end, **options).sample(model, Noise.of(1, 10_000)).x.flatten()
        found = torch.bincount(x, minlength=5)
        return chi_square(found[[0, 1, 4]], law) if found.sum() == found[[0, 1, 4]].sum() else 0.0

    assert agreement(draw=True) > AGREES
    if end < 4:
        assert agreement() < DIFFERS


def drawn_law(model: OracleModel, end: float, looks: int = 200_000) -> torch.Tensor:
    """[27] how likely states are whose tokens are drawn one by one given z: E of the product."""
    oracle, process = table(), model.process
    noise = Noise.of(9, looks)
    which = torch.multinomial(
        oracle.probabilities, looks, True, generator=torch.Generator().manual_seed(3)
    )
    x = process.encode(oracle.states[which]).double()
    level = Level.at(torch.full((looks,), end, dtype=torch.float64), process).over(x)
    posterior = oracle.posterior(process, process.corrupt(x, level, noise), level)
    one_hot = torch.nn.functional.one_hot(oracle.states, 3).double()
    each = torch.einsum("bs,std->btd", posterior, one_hot)
    return torch.einsum("bi,bj,bk->ijk", *each.unbind(1)).flatten() / looks


@pytest.mark.parametrize("end", [-1.0, 1.0, 5.0])
def test_drawn_values_lose_what_elements_say_of_each_other_beyond_z(end):
    """Their law is that of tokens drawn one by one given z; it is the data's where z says all."""
    model = levels_model(table(), (3,), 3)
    law = drawn_law(model, end)
    x = Multistep(60, end=end, draw=True).sample(model, Noise.of(2, 10_000)).x
    assert p_value(x, law) > AGREES
    lost = divergence(table().probabilities, law)
    assert lost > 0.1 if end < 2 else lost < 1e-3
    assert (p_value(x, table().probabilities) < DIFFERS) == (end < 2)


@pytest.mark.parametrize(
    ("process", "calls"), [(Gaussian(predict="v"), 0), (Gaussian(), 2)], ids=["v", "no values"]
)
def test_nothing_is_drawn_from_a_mean(process, calls):
    """A network that says what to expect alone is refused before its first call, or at it."""
    model = gaussian_model(MIXTURE, process=process)
    with pytest.raises(IncompatibleError, match="predict: levels"):
        Multistep(3, draw=True).sample(model, Noise.of(0, 2))
    assert model.rows == calls


def test_drawn_values_do_not_depend_on_the_batch_size():
    """Uniforms belong to a sample."""
    model, sampler = levels_model(table(), (3,), 3), Multistep(3, begin=-4.0, end=1.0, draw=True)
    whole = sampler.sample(model, Noise.of(3, 20)).x
    parts = [sampler.sample(model, Noise(3, part, 20)).x for part in torch.arange(20).split(7)]
    assert torch.equal(torch.cat(parts), whole)


def test_training_keeps_nothing_to_draw_from():
    """Logits are as large as anything in a step: none are kept that nobody will ask for."""
    process = Gaussian().bind(DataSpec((2,), 3))
    z = torch.zeros(4, 2)
    level = Level.at(torch.tensor(0.0), process).over(z)
    assert process.read(torch.zeros(4, 2, 3, requires_grad=True), z, level).draw is None
    with torch.no_grad():
        prediction = process.read(torch.zeros(4, 2, 3), z, level)
    assert prediction.draw is not None
    assert process.clip_prediction(prediction).draw is prediction.draw

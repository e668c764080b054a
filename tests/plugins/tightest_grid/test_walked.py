"""Samplers that are not ancestral walk the levels of a tightest grid."""

from __future__ import annotations

import pytest
import torch
from elbowroom import DataSpec, EvenGrid, Noise
from elbowroom.plugins.diffusers.sampler import DiffusersSampler
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.samplers.ancestral import Ancestral
from elbowroom.plugins.samplers.ddim import DDIM
from elbowroom.plugins.samplers.grid import LogSNRGrid, RhoGrid
from elbowroom.plugins.samplers.heun import Heun
from elbowroom.plugins.schedules.gaussian import VPCosine
from elbowroom.plugins.tightest_grid.tightest import Tightest

from tests.plugins.tightest_grid.exact_costs import POINTS, gaussian_costs_of, written

pytestmark = pytest.mark.filterwarnings("ignore")  # of diffusers
PROCESS = Gaussian().bind(DataSpec((1,), 5))
SCHEDULE = VPCosine(log_snr_min=-6.0, log_snr_max=6.0)


class Model:
    """An exact denoiser that notes at which levels it was asked."""

    process, schedule = PROCESS, SCHEDULE

    def __init__(self):
        self.asked = []

    def predict(self, z, level, cond):
        self.asked += level.log_snr.flatten().tolist()
        return POINTS.predict(PROCESS)(z, level)


@pytest.fixture
def grid(tmp_path):
    """The tightest of that denoiser."""
    ends = SCHEDULE.log_snr(torch.tensor([1.0, 0.0], dtype=torch.float64))
    lam = torch.linspace(float(ends[0]), float(ends[1]), 41, dtype=torch.float64)
    return Tightest(written(tmp_path, gaussian_costs_of(POINTS, POINTS.predict(PROCESS), lam)))


@pytest.mark.parametrize(
    ("make", "intervals"),
    [
        (lambda grid: Ancestral(6, grid), 6),
        (lambda grid: DDIM(6, grid), 6),
        (lambda grid: DDIM(6, grid, eta=0.5), 6),
        (lambda grid: Heun(7, grid), 6),  # and a last step from there to the data
        (lambda grid: DiffusersSampler(7, grid), 6),
        (lambda grid: DiffusersSampler(7, grid, scheduler="DDIMScheduler"), 6),
        (lambda grid: DiffusersSampler(7, grid, scheduler="UniPCMultistepScheduler"), 6),
    ],
    ids=["ancestral", "ddim", "ddim with noise", "heun", "dpm-solver++", "their ddim", "unipc"],
)
def test_the_network_is_asked_at_the_levels_of_the_grid(grid, make, intervals):
    """At all of them, no others, and not at those of any usual grid; samples are points."""
    due = SCHEDULE.log_snr(grid.times(intervals, SCHEDULE))
    for other in (EvenGrid(), LogSNRGrid(), RhoGrid()):
        usual = SCHEDULE.log_snr(other.times(intervals, SCHEDULE))
        assert float((due - usual).abs().max()) > 0.5
    model = Model()
    x = make(grid).sample(model, Noise.of(0, 64)).x
    asked = torch.tensor(model.asked, dtype=torch.float64)
    away = (asked[:, None] - due).abs()  # [calls, T + 1]
    assert float(away.min(1).values.max()) < 0.01
    assert float(away.min(0).values.max()) < 0.01
    assert float(torch.isin(x, POINTS.states).double().mean()) > 0.9

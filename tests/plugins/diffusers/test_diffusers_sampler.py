"""Schedulers of diffusers as samplers: the same steps as ours where they coincide."""

from __future__ import annotations

import subprocess
import sys

import diffusers
import elbowroom as er
import pytest
import torch
from elbowroom import DataSpec, ElbowroomError, EvenGrid, Noise, Schedule
from elbowroom.plugins.conformance.oracle import MixtureOracle
from elbowroom.plugins.diffusers.sampler import DiffusersSampler
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.samplers.ddim import DDIM
from elbowroom.plugins.samplers.grid import LogSNRGrid, RhoGrid
from elbowroom.plugins.samplers.heun import Heun
from elbowroom.plugins.schedules.gaussian import VPCosine
from scipy import stats

pytestmark = pytest.mark.filterwarnings("ignore")  # the library's own, thousands of them

MIXTURE = MixtureOracle(
    torch.tensor([0.3, 0.7], dtype=torch.float64),
    torch.tensor([-0.6, 0.4], dtype=torch.float64),
    torch.tensor([0.1, 0.2], dtype=torch.float64),
)
SOLVERS = [
    "DDIMScheduler",
    "DDPMScheduler",
    "DEISMultistepScheduler",
    "DPMSolverMultistepScheduler",
    "DPMSolverSinglestepScheduler",
    "EDMDPMSolverMultistepScheduler",
    "EDMEulerScheduler",
    "EulerAncestralDiscreteScheduler",
    "EulerDiscreteScheduler",
    "FlowMatchEulerDiscreteScheduler",
    "FlowMatchHeunDiscreteScheduler",
    "HeunDiscreteScheduler",
    "KDPM2AncestralDiscreteScheduler",
    "KDPM2DiscreteScheduler",
    "LMSDiscreteScheduler",
    "PNDMScheduler",
    "SASolverScheduler",
    "UniPCMultistepScheduler",
]


class Model:
    """The exact denoiser of the mixture."""

    def __init__(self, schedule: Schedule) -> None:
        self.process = Gaussian().bind(DataSpec((2,), 256))
        self.schedule = schedule

    def predict(self, z, level, cond):
        return MIXTURE.predict(z, level)


class Through(Schedule):
    """A schedule that goes through given levels, from noise to data, at evenly spaced times."""

    def __init__(self, levels: torch.Tensor) -> None:
        self.levels = levels.flip(0)  # rising time, falling lambda

    def log_snr(self, t):
        place = t * (len(self.levels) - 1)
        left = place.floor().long().clamp(0, len(self.levels) - 2)
        part = place - left
        return self.levels[left] * (1 - part) + self.levels[left + 1] * part


def same_levels(sampler: DiffusersSampler, once: bool = False) -> Model:
    """A model whose uniform grid is the scheduler's, up to its last step to no noise at all."""
    levels = sampler.levels(Model(VPCosine())).log_snr[:-1]
    return Model(Through(levels.unique().sort().values if once else levels))


@pytest.mark.parametrize(
    ("scheduler", "options"),
    [
        ("DDIMScheduler", {}),
        ("EulerDiscreteScheduler", {}),
        ("EDMEulerScheduler", {}),
        ("FlowMatchEulerDiscreteScheduler", {}),
        ("DPMSolverMultistepScheduler", {"solver_order": 1}),
        ("DPMSolverMultistepScheduler", {"solver_order": 1, "prediction_type": "sample"}),
        ("DPMSolverMultistepScheduler", {"solver_order": 1, "prediction_type": "v_prediction"}),
        (
            "DPMSolverMultistepScheduler",
            {"solver_order": 1, "use_flow_sigmas": True, "prediction_type": "flow_prediction"},
        ),
        ("UniPCMultistepScheduler", {"solver_order": 1, "disable_corrector": list(range(10))}),
    ],
)
def test_first_order_schedulers_are_our_ddim(scheduler, options):
    """On the scheduler's own levels our DDIM takes the same path, whatever its convention."""
    # ten steps divide the thousand they were made from: its DDIM rounds where a step ends
    sampler = DiffusersSampler(10, scheduler=scheduler, options=options)
    model = same_levels(sampler)
    theirs = list(sampler.frames(model, Noise.of(0, 50)))
    ours = list(DDIM(9).frames(model, Noise.of(0, 50)))
    for a, b in zip(theirs[:9], ours[:9], strict=True):
        assert torch.allclose(a.z, b.z, atol=2e-3)
    level = DDIM(9).levels(model).select(torch.full((50,), 9)).over(ours[9].z)
    assert torch.allclose(theirs[-1].z.double(), model.predict(ours[9].z, level, None).x, atol=2e-3)


def test_heun_of_both_is_the_same():
    """Heun's method on the same levels ends at the same samples after the same calls."""
    sampler = DiffusersSampler(30, scheduler="HeunDiscreteScheduler")
    model = same_levels(sampler, once=True)
    theirs = sampler.sample(model, Noise.of(0, 200))
    *_, ours = Heun(30, EvenGrid()).frames(model, Noise.of(0, 200))
    assert (theirs.calls == ours.calls).all()
    assert (theirs.x - ours.x).abs().double().mean() < 0.05  # of 256 levels


def mixture_distance(x: torch.Tensor) -> float:
    def cdf(value):
        parts = zip(MIXTURE.weights, MIXTURE.means, MIXTURE.stds, strict=True)
        return sum(w.item() * stats.norm(m.item(), s.item()).cdf(value) for w, m, s in parts)

    return float(stats.kstest(x.flatten().double().numpy(), cdf).statistic)


@pytest.mark.parametrize("scheduler", SOLVERS)
def test_schedulers_sample_the_data(scheduler):
    """With an exact denoiser every solver comes close to the law of the data."""
    sampler = DiffusersSampler(60, scheduler=scheduler)
    *_, last = sampler.frames(Model(VPCosine()), Noise.of(0, 1500))
    assert mixture_distance(last.z) < 0.05


def test_the_distance_notices_a_wrong_step():
    """Half of a scheduler's noise is enough to fail the check above."""
    sampler = DiffusersSampler(60, scheduler="EulerDiscreteScheduler")
    z = 0.5 * Noise.of(0, 1500).normal("prior", (2,))
    *_, last = sampler.frames(Model(VPCosine()), Noise.of(0, 1500), z=z)
    assert mixture_distance(last.z) > 0.1


@pytest.mark.parametrize(
    "scheduler", ["DPMSolverMultistepScheduler", "DDPMScheduler", "EulerAncestralDiscreteScheduler"]
)
def test_samples_do_not_depend_on_the_batch_size(scheduler):
    """Schedulers that draw noise draw it for each sample alone."""
    sampler, model = DiffusersSampler(10, scheduler=scheduler), Model(VPCosine())
    whole = sampler.sample(model, Noise.of(3, 10)).x
    for size in (1, 4):
        parts = [
            sampler.sample(model, Noise(3, torch.arange(10)[k : k + size], 10)).x
            for k in range(0, 10, size)
        ]
        assert torch.equal(torch.cat(parts), whole)


def test_calls_are_counted_apart_from_steps():
    """A second-order scheduler takes two calls a step but for the last."""
    sampler = DiffusersSampler(10, scheduler="HeunDiscreteScheduler")
    assert (sampler.sample(Model(VPCosine()), Noise.of(0, 2)).calls == 19).all()


TABLED = [
    "DDIMScheduler",
    "DDPMScheduler",
    "DEISMultistepScheduler",
    "DPMSolverMultistepScheduler",
    "EulerDiscreteScheduler",
    "HeunDiscreteScheduler",
    "LMSDiscreteScheduler",
    "UniPCMultistepScheduler",
]


@pytest.mark.parametrize("grid", [EvenGrid(), LogSNRGrid(), RhoGrid()], ids=str)
@pytest.mark.parametrize("scheduler", TABLED)
def test_a_grid_says_at_which_levels_a_scheduler_asks(scheduler, grid):
    """All of its levels on the model's schedule and no others, up to float32."""
    model = Model(VPCosine(eps=0.01))
    found = DiffusersSampler(12, grid, scheduler=scheduler).levels(model).log_snr[:-1]
    due = model.schedule.log_snr(grid.times(11, model.schedule))
    assert len(due) == 12
    torch.testing.assert_close(found.unique(), due, rtol=0, atol=0.02)


def test_on_a_grid_the_first_order_is_our_ddim():
    """From the same noise over the same levels to the same data."""
    model, first = Model(VPCosine(eps=0.01)), {"solver_order": 1}
    theirs = list(DiffusersSampler(10, LogSNRGrid(), options=first).frames(model, Noise.of(0, 50)))
    ours = list(DDIM(9, LogSNRGrid()).frames(model, Noise.of(0, 50)))
    for a, b in zip(theirs[:10], ours[:10], strict=True):
        assert torch.allclose(a.z, b.z, atol=2e-3)
    assert (theirs[-1].x - ours[-1].x).abs().max() <= 1
    own = list(DiffusersSampler(10, options=first).frames(model, Noise.of(0, 50)))
    assert not torch.allclose(own[5].z, ours[5].z, atol=2e-2)


def test_a_grid_that_cannot_be_walked_is_refused():
    """A scheduler without a table, or levels that no table of theirs can hold."""
    straight = DiffusersSampler(8, RhoGrid(), scheduler="FlowMatchEulerDiscreteScheduler")
    with pytest.raises(ElbowroomError, match="takes no table of noise"):
        straight.levels(Model(VPCosine()))
    with pytest.raises(ElbowroomError, match=r"ends at log-SNR 18.*log_snr_max=14"):
        DiffusersSampler(8, RhoGrid()).levels(Model(VPCosine(log_snr_max=18.0)))


@pytest.mark.parametrize(
    ("scheduler", "options"),
    [
        ("DPMSolverMultistepScheduler", {"use_karras_sigmas": True}),
        ("EulerDiscreteScheduler", {"use_karras_sigmas": True}),
        ("DPMSolverMultistepScheduler", {"rescale_betas_zero_snr": True}),
        ("DPMSolverSinglestepScheduler", {}),
        ("KDPM2DiscreteScheduler", {}),
        ("CogVideoXDDIMScheduler", {}),
    ],
)
def test_a_scheduler_that_does_not_keep_to_the_grid_is_refused(scheduler, options):
    """Instead of walking levels that nobody named."""
    sampler = DiffusersSampler(12, EvenGrid(), scheduler=scheduler, options=options)
    with pytest.raises(ElbowroomError, match="does not keep to EvenGrid"):
        sampler.levels(Model(VPCosine(eps=0.01)))


def test_levels_a_table_cannot_hold_are_refused():
    """So near each other, or so noisy, that float32 has no betas for them; or given twice."""
    with pytest.raises(ElbowroomError, match="very many steps"):
        DiffusersSampler(1000, LogSNRGrid()).levels(Model(VPCosine(log_snr_max=13.45)))
    with pytest.raises(ElbowroomError, match="does not keep to"):
        DiffusersSampler(2, EvenGrid()).levels(Model(VPCosine(log_snr_min=-20.0)))
    options = {"num_train_timesteps": 100}
    with pytest.raises(ElbowroomError, match="made from the grid"):
        DiffusersSampler(5, EvenGrid(), options=options).levels(Model(VPCosine()))


def test_on_a_grid_the_levels_are_those_the_network_has_learned():
    """Not beyond the path's ends by what float32 does, of which samplers warn."""
    model = Model(VPCosine(log_snr_max=13.45))
    levels = DiffusersSampler(20, EvenGrid()).levels(model).log_snr
    assert torch.equal(levels[[0, -2]], model.schedule.log_snr(torch.tensor([1.0, 0.0]).double()))


class OfTwo(EvenGrid):
    """A grid that takes no more than two steps."""

    def times(self, steps, schedule):
        return super().times(min(steps, 2), schedule)


def test_a_grid_of_fewer_steps_is_counted():
    """Two steps between three levels, and a call at each."""
    sampler, model = DiffusersSampler(10, OfTwo()), Model(VPCosine(eps=0.01))
    assert sampler.count_steps(model) == 3
    assert (sampler.sample(model, Noise.of(0, 2)).calls == 3).all()


def test_its_own_levels_are_the_default_in_a_config():
    """And another grid is named there as for any sampler."""
    parsed = er.assemble(
        data="toy",
        process="gaussian",
        denoiser={"name": "dit", "width": 16, "depth": 1},
        sampler={"name": "diffusers", "steps": 5, "grid": {"name": "rho", "rho": 3.0}},
    )
    assert parsed.sampler.grid == RhoGrid(rho=3.0)
    assert (er.sample(parsed, 4).calls == 5).all()
    assert er.sample(parsed, 4, grid="scheduler").x.shape == (4, 3)


def test_an_unknown_scheduler_is_named_with_its_neighbours():
    """A misspelt name shows what is near."""
    with pytest.raises(ElbowroomError, match="DPMSolverMultistepScheduler"):
        DiffusersSampler(10, scheduler="DPMSolverMultiStep").build()


@pytest.mark.parametrize(
    ("scheduler", "why"),
    [
        ("DPMSolverSDEScheduler", "batch size"),
        ("DDIMInverseScheduler", "does not lead to the data"),
        ("AmusedScheduler", "cannot be made"),
        ("BlockRefinementScheduler", "neither sigmas nor alphas_cumprod"),
    ],
)
def test_a_scheduler_that_cannot_serve_says_why(scheduler, why):
    """What is not a sampler of Gaussian diffusion is refused before any sample is drawn."""
    if not hasattr(diffusers, scheduler):
        pytest.skip("this version of diffusers does not have it")
    with pytest.raises(ElbowroomError, match=why):
        list(DiffusersSampler(5, scheduler=scheduler).frames(Model(VPCosine()), Noise.of(0, 1)))


def test_an_unknown_option_is_named():
    """A misspelt option of a scheduler is an error that shows the right one."""
    sampler = DiffusersSampler(5, options={"solver_ordre": 2})
    with pytest.raises(ElbowroomError, match="did you mean 'solver_order'"):
        sampler.build()


def test_diffusers_is_imported_only_when_used():
    """Loading the sampler's class does not import diffusers."""
    code = (
        "import sys, elbowroom.plugins.diffusers.sampler;"
        "sys.exit(any(name.split('.')[0] == 'diffusers' for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

"""Options of Gaussian sampling: clipping, EDM's grid, and levels that were never trained on."""

from __future__ import annotations

import math
import warnings

import attrs
import pytest
import torch
from elbowroom import DataSpec, Level, Noise, RealPrediction
from elbowroom.config.assembly import build_model, build_parts
from elbowroom.config.sections import load_config
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.samplers.ancestral import Ancestral
from elbowroom.plugins.samplers.ddim import DDIM
from elbowroom.plugins.samplers.heun import Heun
from elbowroom.plugins.sampling.drawing import draw
from elbowroom.plugins.schedules.gaussian import VPCosine
from elbowroom.runs.load import load_run

from tests.helpers.command import elbowroom

SPEC = DataSpec((3,), 5)  # values -0.8 to 0.8


@attrs.frozen(eq=False)
class Says:
    """A model that expects the same everywhere."""

    x: float
    process: Gaussian = attrs.field(factory=lambda: Gaussian().bind(SPEC))
    schedule: VPCosine = attrs.field(factory=VPCosine)

    def predict(self, z, level, cond):
        return RealPrediction(z, level, given_x=torch.full_like(z, self.x))


def walked(sampler, model):
    return torch.stack([frame.z for frame in sampler.frames(model, Noise.of(0, 4))])


@pytest.mark.parametrize("sampler", [Ancestral(5), DDIM(5), DDIM(5, eta=0.7)], ids=str)
def test_clipping_moves_what_is_expected_into_the_datas_range(sampler):
    """A model that exaggerates walks the path of one that says the outermost value."""
    clipped = attrs.evolve(sampler, clip=True)
    torch.testing.assert_close(walked(clipped, Says(3.0)), walked(sampler, Says(0.8)))
    torch.testing.assert_close(walked(clipped, Says(-9.0)), walked(sampler, Says(-0.8)))
    torch.testing.assert_close(walked(clipped, Says(0.5)), walked(sampler, Says(0.5)))
    assert not torch.allclose(walked(sampler, Says(3.0)), walked(sampler, Says(0.8)))


def test_clipping_leaves_data_and_noise_together():
    """z = a x + b eps holds for the clipped data and the noise that goes with it."""
    process = Gaussian().bind(SPEC)
    z = torch.linspace(-3, 3, 12, dtype=torch.float64).reshape(4, 3)
    level = Level.at(torch.tensor(0.3, dtype=torch.float64), process)
    clipped = process.clip_prediction(RealPrediction(z, level, given_v=z * 2))
    assert float(clipped.x.abs().max()) <= 0.8
    together = level.share.sqrt() * clipped.x + level.noise_share.sqrt() * clipped.eps
    torch.testing.assert_close(together, z)


def test_a_categorical_prediction_is_always_in_range():
    """Clipping asks nothing of a masked process."""
    said = object()
    assert Masked().bind(SPEC).clip_prediction(said) is said


@pytest.mark.parametrize("steps", [2, 3, 18])
def test_heun_counts_steps_as_its_paper(steps):
    """N steps, the last one to sigma = 0, are 2 N - 1 calls on a grid of N levels."""
    sampler, model = Heun(steps), Says(0.5)
    assert (sampler.sample(model, Noise.of(0, 2)).calls == 2 * steps - 1).all()
    assert len(sampler.levels(model).log_snr) == steps


def test_the_preset_edm_samples_as_the_paper():
    """sigma_i = (80^(1/7) + i/17 (0.002^(1/7) - 80^(1/7)))^7 for i = 0 .. 17, and 35 calls."""
    small = "denoiser={name: dit, width: 16, depth: 1}"
    model = build_model(build_parts(load_config("edm", (small,))))
    sigma = (-model.sampler.levels(model).log_snr / 2).exp()
    first, last = 80 ** (1 / 7), 0.002 ** (1 / 7)
    theirs = torch.tensor([(first + i / 17 * (last - first)) ** 7 for i in range(18)])
    torch.testing.assert_close(sigma, theirs.double(), rtol=1e-3, atol=0)
    (drawn,) = draw(model, 2)
    assert drawn.calls.tolist() == [35, 35]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of a single step on a schedule from 8.02 down."""
    folder = tmp_path_factory.mktemp("levels") / "run"
    words = ["train.steps=1", "train.batch_size=8", "denoiser={name: dit, width: 16, depth: 1}"]
    words += ["sampler.steps=3", "process=gaussian"]
    done = elbowroom("train", "digits", *words, "--out", folder)
    assert done.code == 0, done.err
    return folder


@pytest.mark.parametrize(
    "overrides",
    [
        ("schedule.log_snr_max=12.0",),
        ("schedule.log_snr_min=-20.0",),
        ("schedule=linear-log-snr",),
        ("schedule={name: vp-cosine}",),
    ],
)
def test_levels_beyond_the_trained_ones_warn(run, overrides):
    """Less noise than the training's least, or more than its most."""
    model = load_run(run, overrides).model
    with pytest.warns(UserWarning, match=r"trained on -12\.\d+ to 8\.02"):
        list(draw(model, 1))


@pytest.mark.parametrize(
    "overrides", [(), ("sampler.steps=5",), ("schedule.log_snr_max=7.0",), ("sampler=heun",)]
)
def test_levels_that_were_trained_on_do_not_warn(run, overrides):
    """Another sampler, or a part of the path, is what the network has learned."""
    model = load_run(run, overrides).model
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(draw(model, 1))


def test_levels_of_a_foreign_scheduler_may_warn(run):
    """A sampler that brings its own levels is looked at, not the schedule alone."""
    pytest.importorskip("diffusers")
    model = load_run(run, ("sampler={name: diffusers, steps: 4}",)).model
    asked = model.sampler.levels(model).log_snr
    highest = float(asked[asked.isfinite()].max())
    beyond = attrs.evolve(model.objective, schedule=VPCosine(log_snr_max=highest - 1))
    model.objective = beyond
    with pytest.warns(UserWarning, match=f"to {highest:.4g}"):
        list(draw(model, 1))
    assert math.isfinite(highest)

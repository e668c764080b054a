"""Ends of a Gaussian path: finite in training and sampling, and no NaN becomes a picture."""

from __future__ import annotations

import attrs
import pytest
import torch
from elbowroom import DataSpec, ElbowroomError, IncompatibleError, Level, Noise, certify
from elbowroom.config.assembly import build_model, build_parts
from elbowroom.config.sections import load_config, to_plain
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.samplers.ancestral import Ancestral
from elbowroom.plugins.samplers.ddim import DDIM
from elbowroom.plugins.samplers.heun import Heun
from elbowroom.plugins.samplers.multistep import Multistep
from elbowroom.plugins.sampling.picture import pixels
from elbowroom.plugins.weightings.paper import Elbo

from tests.helpers.command import elbowroom
from tests.helpers.tiny_run import tiny_config


def config(process: object, schedule: object):
    return load_config({**to_plain(tiny_config()), "process": process, "schedule": schedule})


@pytest.mark.parametrize("schedule", ["vp-cosine", "flow", "edm", "cosine", "linear"])
def test_a_gaussian_model_needs_finite_ends(schedule):
    """With eps = 0 there is no model to train or to sample from: one sentence says why."""
    parts = build_parts(config("gaussian", {"name": schedule, "eps": 0.0}))
    with pytest.raises(IncompatibleError, match=r"log-SNRs from inf to -inf.*schedule.eps"):
        build_model(parts)
    assert certify(Elbo(), parts.schedule, parts.process).is_bound  # which takes limits


def test_ends_that_float32_takes_for_infinite_are_none():
    """A log-SNR of 200 is finite, and leaves no noise in the numbers networks see."""
    parts = build_parts(config("gaussian", {"name": "linear-log-snr", "log_snr_max": 200.0}))
    with pytest.raises(IncompatibleError, match="log-SNRs from 200 to -5"):
        build_model(parts)


@pytest.mark.parametrize("schedule", ["cosine", "linear", "vp-cosine"])
def test_a_masked_model_takes_infinite_ends(schedule):
    """Where every token is visible at t = 0 nothing is left to reconstruct."""
    build_model(build_parts(config("masked", {"name": schedule, "eps": 0.0})))


SMALL = ["train.steps=1", "train.batch_size=8", "denoiser={name: dit, width: 16, depth: 1}"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of a single step."""
    folder = tmp_path_factory.mktemp("ends") / "run"
    done = elbowroom("train", "digits", "process=gaussian", *SMALL, "--out", folder)
    assert done.code == 0, done.err
    return folder


def test_the_command_line_refuses_an_infinite_end(run, tmp_path):
    """Neither training nor sampling begins; the sentence goes to stderr, and nothing is drawn."""
    schedule = "schedule={name: vp-cosine, eps: 0}"
    words = ("digits", "process=gaussian", *SMALL, schedule, "--out", tmp_path / "never")
    for ran in (
        elbowroom("train", *words),
        elbowroom("sample", run, schedule, "--count", 1, "--out", tmp_path / "never"),
    ):
        assert ran.code == 2 and "needs both within" in ran.err
    assert not (tmp_path / "never").exists()


@attrs.frozen
class Lost:
    """A model that says NaN."""

    process: Gaussian
    schedule: object

    def predict(self, z, level, cond):
        return self.process.read(torch.full_like(z, torch.nan), z, level)


@pytest.mark.parametrize(
    "sampler", [Ancestral(3), DDIM(3), DDIM(3, eta=1.0), Heun(3), Multistep(3)], ids=str
)
def test_nan_does_not_become_a_sample(sampler):
    """A network that says NaN ends in an error, not in black pictures."""
    parts = build_parts(config({"name": "gaussian", "predict": "v"}, "vp-cosine"))
    model = Lost(parts.process, parts.schedule)
    with pytest.raises(ElbowroomError, match="2 of 2 samples"):
        sampler.sample(model, Noise.of(0, 2))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_one_bad_value_is_enough(bad):
    """Decoding counts the samples that have it, and so does drawing pixels."""
    process = Gaussian().bind(DataSpec((2, 2, 1), 5))
    z = torch.zeros(3, 2, 2, 1)
    z[1, 0, 1, 0] = bad
    level = Level.at(torch.tensor(8.0), process).over(z)
    with pytest.raises(ElbowroomError, match="1 of 3 samples"):
        process.decode(z, None, level, Noise.of(0, 3))
    with pytest.raises(ElbowroomError, match="1 of 3 samples"):
        pixels(z, 5)

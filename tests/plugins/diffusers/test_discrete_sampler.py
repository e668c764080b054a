"""diffusers' schedulers for tokens under contrib's uniform process."""

from __future__ import annotations

import pytest
import torch
from elbowroom import DataSpec, ElbowroomError, Level, Noise, assemble
from elbowroom.conformance import TableOracle, every_state
from elbowroom.conformance.sampler import OracleModel
from elbowroom.contrib.uniform import Uniform
from elbowroom.plugins.diffusers.discrete import DiscreteDiffusersSampler
from elbowroom.plugins.schedules.masking import Linear

NAMES = ("DiscreteDDIMScheduler", "EntropyBoundScheduler", "BlockRefinementScheduler")
CHANCES = torch.tensor([0.30, 0.02, 0.08, 0.05, 0.25, 0.02, 0.10, 0.03, 0.15], dtype=torch.float64)


@pytest.fixture(scope="module")
def model() -> OracleModel:
    """An exact denoiser of two tokens that depend on each other."""
    process = Uniform().bind(DataSpec((2,), 3))
    return OracleModel(process, Linear(), TableOracle(every_state((2,), 3), CHANCES))


@pytest.mark.parametrize("name", NAMES)
def test_samples_are_tokens_whatever_the_batch(model, name):
    """Each sample has a generator of its own; a step is a call."""
    sampler = DiscreteDiffusersSampler(4, scheduler=name)
    noise = Noise.of(1, 6)
    whole = sampler.sample(model, noise)
    assert whole.x.shape == (6, 2) and bool(((whole.x >= 0) & (whole.x < 3)).all())
    assert whole.calls.tolist() == [4] * 6
    parts = [sampler.sample(model, noise.select(part)).x for part in (slice(0, 2), slice(2, 6))]
    assert torch.equal(torch.cat(parts), whole.x)


def test_discrete_ddim_draws_from_the_model(model):
    """With many steps the samples of an exact denoiser have the data's probabilities."""
    count = 2000
    x = DiscreteDiffusersSampler(12).sample(model, Noise.of(0, count)).x
    seen = torch.bincount(x[:, 0] * 3 + x[:, 1], minlength=9).double()
    chi2 = float(((seen - count * CHANCES) ** 2 / (count * CHANCES)).sum())
    assert chi2 < 40  # 8 degrees of freedom: beyond it with probability 3e-6


def test_the_network_is_asked_on_the_linear_path(model):
    """a = 0, 1/T, ..., 1 kept, within the ends of the model's schedule."""
    levels: Level = DiscreteDiffusersSampler(4).levels(model)
    assert levels.share[1:-1].tolist() == pytest.approx([0.25, 0.5, 0.75])
    ends = model.schedule.log_snr(torch.tensor([1.0, 0.0], dtype=torch.float64))
    assert levels.log_snr[[0, -1]].tolist() == pytest.approx(ends.tolist())


def test_other_schedulers_and_processes_are_refused(model):
    """A Gaussian scheduler is none for tokens; a masked process has no random tokens."""
    with pytest.raises(ElbowroomError, match="DDPMScheduler is none for tokens"):
        DiscreteDiffusersSampler(4, scheduler="DDPMScheduler").sample(model, Noise.of(0, 1))
    with pytest.raises(ElbowroomError, match="diffusers-discrete"):
        assemble({"data": "toy", "process": "masked", "denoiser": "dit",
                  "sampler": "diffusers-discrete"})  # fmt: skip

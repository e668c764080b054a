"""A learned schedule: a schedule at every moment, trained for the estimator's second moment."""

from __future__ import annotations

import pytest
import torch
from elbowroom import DataSpec, IncompatibleError, Noise
from elbowroom.config.sections import load_config
from elbowroom.conformance import check_schedule
from elbowroom.objective.loss import Objective
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.schedules.gaussian import VPCosine
from elbowroom.plugins.schedules.learned import Learned
from elbowroom.plugins.time_samplers.uniform import Stratified
from elbowroom.plugins.weightings.paper import Elbo, Sigmoid
from elbowroom.plugins.weightings.simple import Simple
from torch import nn

from tests.helpers.tiny_run import same, tensors, tiny_config, trained_and_cut

PROCESS = Gaussian(predict="v").bind(DataSpec((6,), levels=4))
BASE = VPCosine(log_snr_max=6.0)


class Shrink(nn.Module):
    """A network of one weight."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(-0.3, dtype=torch.float64))

    def forward(self, z, level):
        return PROCESS.read(self.weight * z, z, level)


def learned(seed: int | None = None, knots: int = 5) -> Learned:
    """As it begins, or somewhere on its way."""
    schedule = Learned(of=BASE, knots=knots)
    if seed is not None:
        values = torch.randn(knots, generator=torch.Generator().manual_seed(seed))
        schedule.shares.data.copy_(values)
    return schedule


def data(batch: int) -> torch.Tensor:
    return PROCESS.encode(torch.arange(batch * 6).reshape(batch, 6) % 4).double()


ELBO = Elbo()


def losses(schedule, network, weighting=ELBO, batch=64, seed=0):
    objective = Objective.prepared(PROCESS, schedule, weighting, Stratified())
    return objective(network, data(batch), Noise.of(seed, batch))


@pytest.fixture(autouse=True)
def _precise():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_conforms(seed):
    """It falls from one end of its base to the other, with its rate and inverse, always."""
    with torch.no_grad():
        check_schedule(learned(seed).requires_grad_(False))
        ends = torch.tensor([0.0, 1.0])
        assert torch.equal(learned(seed).log_snr(ends), BASE.log_snr(ends))


def test_begins_as_its_base():
    t = torch.linspace(0, 1, 33)
    torch.testing.assert_close(learned().log_snr(t), BASE.log_snr(t))


@pytest.mark.parametrize("weighting", [Elbo(), Sigmoid()])
def test_its_gradient_is_that_of_the_second_moment(weighting):
    """By differences of the losses themselves; the network's gradient is the loss's own."""
    network, schedule = Shrink(), learned(3)
    losses(schedule, network, weighting).loss.backward()

    def second_moment(shift: torch.Tensor) -> float:
        with torch.no_grad():
            moved = learned(3)
            moved.shares += shift
            return float((losses(moved, network, weighting).per_example ** 2).mean() / 6)

    for k, step in enumerate(torch.eye(5) * 1e-5):
        slope = (second_moment(step) - second_moment(-step)) / 2e-5
        assert schedule.shares.grad[k].item() == pytest.approx(slope, rel=1e-4, abs=1e-6)

    own = network.weight.grad.clone()
    network.weight.grad = None
    losses(learned(3).requires_grad_(False), network, weighting).loss.backward()
    assert torch.equal(network.weight.grad, own)


def test_training_it_keeps_the_objective_and_lowers_its_variance():
    """The mean over many looks is what it was, their spread is less."""
    network, schedule = Shrink().requires_grad_(False), learned(knots=8)

    def looks():
        with torch.no_grad():
            return losses(schedule, network, batch=8192, seed=99).per_example

    before, optimiser = looks(), torch.optim.Adam(schedule.parameters(), 0.05)
    for seed in range(150):
        optimiser.zero_grad()
        losses(schedule, network, batch=128, seed=seed).loss.backward()
        optimiser.step()
    after = looks()
    assert after.mean().item() == pytest.approx(before.mean().item(), rel=0.03)
    assert after.std() < 0.8 * before.std()


@pytest.mark.parametrize(
    ("process", "weighting", "steps", "why"),
    [
        (Masked().bind(DataSpec((6,), levels=4)), Elbo(), None, "no gradient"),
        (PROCESS, Simple(), None, "weighting Simple reads the schedule"),
        (PROCESS, Elbo(), 10, "objective.steps"),
    ],
)
def test_is_refused_where_it_would_change_the_objective(process, weighting, steps, why):
    with pytest.raises(IncompatibleError, match=why):
        Objective.prepared(process, learned(), weighting, Stratified(), steps=steps)
    fixed = learned().requires_grad_(False)
    Objective.prepared(process, fixed, weighting, Stratified(), steps=steps)


def test_a_run_trains_it_and_resumes_exactly(tmp_path):
    """What it has learned is in checkpoints and averages, and a stop leaves no trace."""
    torch.set_default_dtype(torch.float32)
    schedule = {"name": "learned", "of": {"name": "vp-cosine", "log_snr_max": 6.0}, "knots": 4}
    config = load_config(
        tiny_config("gaussian", steps=9, save_every=3, keep=9, micro_batch=4, evaluate_every=4),
        {"weighting": "sigmoid", "schedule": schedule},
    )
    last, resumed = trained_and_cut(config, tmp_path)
    assert same(last, resumed)
    assert any("learned_schedule.shares" in name and t.any() for name, t in tensors(last).items())

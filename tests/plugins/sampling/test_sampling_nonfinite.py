"""Predictions that are not finite: no sample comes of them, and the step is named."""

from __future__ import annotations

import pytest
import torch
from elbowroom import CategoricalPrediction, DataSpec, ElbowroomError, Level, Noise, RealPrediction
from elbowroom.contracts.trajectory import NonFinitePredictionError, Trajectory
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.samplers.ancestral import Ancestral
from elbowroom.plugins.samplers.confidence import Confidence
from elbowroom.plugins.samplers.corrected import Corrected
from elbowroom.plugins.samplers.ddim import DDIM
from elbowroom.plugins.samplers.first_hitting import FirstHitting
from elbowroom.plugins.samplers.heun import Heun
from elbowroom.plugins.samplers.multistep import Multistep
from elbowroom.plugins.samplers.remask import Remask
from elbowroom.plugins.samplers.scattered import Scattered
from elbowroom.plugins.samplers.top_p import TopP
from elbowroom.plugins.schedules.gaussian import VPCosine
from elbowroom.plugins.schedules.masking import Cosine
from elbowroom.randomness.categorical import draw_categorical

SPEC = DataSpec((12,), levels=3)


class Broken:
    """A model that says ``what`` of sample 2 once t is below a half."""

    def __init__(self, process, schedule, what):
        self.process, self.schedule, self.what = process.bind(SPEC), schedule, what

    def predict(self, z, level, cond):
        late = (level.t < 0.5).expand(z.shape) & (cond == 2)[:, None]
        said = torch.where(late, self.what, 0.25)
        if "real" in self.process.traits:
            return RealPrediction(z, level, given_v=said.to(z.dtype))
        logits = said[..., None].repeat(1, 1, 3)
        logits[..., 0] = 0.0 if self.what != -torch.inf else self.what
        return CategoricalPrediction(logits)


def masked(what):
    return Broken(Masked(), Cosine(), what)


def gaussian(what):
    return Broken(Gaussian(), VPCosine(), what)


def sampled(sampler, model):
    return sampler.sample(model, Noise.of(0, 4), cond=torch.arange(4))


@pytest.mark.parametrize("what", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize(
    "sampler",
    [
        Ancestral(8),
        Ancestral(8, skip=False),
        TopP(8),
        FirstHitting(12),
        Confidence(8),
        Remask(8),
        Scattered(8),
        Corrected(8),
    ],
    ids=lambda one: type(one).__name__,
)
def test_no_token_is_drawn_from_what_is_no_distribution(sampler, what):
    """NaN, plus infinity, or every value forbidden: sampling stops, and says where."""
    with pytest.raises(NonFinitePredictionError, match=r"not finite \(sample 2, .* 1 of 4 samp"):
        sampled(sampler, masked(what))


@pytest.mark.parametrize("what", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize(
    "sampler",
    [Ancestral(8), DDIM(8), DDIM(8, eta=1.0), Heun(8), Multistep(8)],
    ids=lambda s: type(s).__name__,
)
def test_no_picture_comes_of_data_that_are_not_finite(sampler, what):
    """Rounded to an integer it would be a picture like others."""
    with pytest.raises(NonFinitePredictionError, match="sample 2"):
        sampled(sampler, gaussian(what))


@pytest.mark.parametrize("sampler", [DDIM(8), Ancestral(8, skip=False)])
def test_the_error_names_sampler_and_step(sampler):
    """The step is the grid's, counted from one."""
    name = type(sampler).__name__
    with pytest.raises(ElbowroomError, match=rf"sampler {name}, step 6 of 8 \(t = 0.375\)"):
        sampled(sampler, gaussian(torch.nan))  # t = 1, 7/8 .. 4/8 are good


def test_forbidden_values_are_legal():
    """Minus infinity forbids a value as long as another is left."""
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf]] * 2)
    assert CategoricalPrediction(logits[:, None]).is_valid().tolist() == [True, True]
    assert draw_categorical(logits, torch.tensor([0.01, 0.99])).tolist() == [1, 1]


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_nothing_is_drawn_from_bad_logits(bad):
    """Rather than always the last value."""
    logits = torch.tensor([[0.0, 1.0], [bad, bad]])
    with pytest.raises(ElbowroomError, match="1 of 2 distributions"):
        draw_categorical(logits, torch.tensor([0.5, 0.5]))


def test_where_asking_costs_the_first_fault_is_kept_to_the_end():
    """On an accelerator a path only notes; later faults do not hide the first of a sample."""
    model = gaussian(torch.nan)
    path = Trajectory(model, Noise.of(0, 4), torch.arange(4), DDIM(8))
    path.check = lambda: None  # as if it could not be read at once
    levels = DDIM(8).levels(model)
    z = torch.zeros(4, 12)
    for k in range(8):
        path.predict(z, levels.select(torch.full((4,), k)).over(z))
    assert path._invalid[:, 0].tolist() == [0, 0, 6, 0]
    del path.check
    with pytest.raises(NonFinitePredictionError, match="step 6 of 8"):
        path.check()


def test_noise_itself_may_break():
    """A step that leaves the finite numbers is found where the network is asked next."""
    path = Trajectory(gaussian(0.0), Noise.of(0, 4), torch.arange(4), DDIM(8))
    z = torch.zeros(4, 12)
    z[1, 3] = torch.inf
    level = Level.of(torch.tensor(0.75).double(), path.model.schedule, path.process)
    with pytest.raises(NonFinitePredictionError, match=r"step 3 of 8 .*sample 1,"):
        path.predict(z, level)

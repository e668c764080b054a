"""Classifier-free guidance."""

from __future__ import annotations

import attrs
import pytest
import torch
from elbowroom import DataSpec, Diffusion, ElbowroomError, Noise
from elbowroom.objective.classifier_free import Guided
from elbowroom.objective.loss import Objective
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.samplers.ancestral import Ancestral
from elbowroom.plugins.samplers.ddim import DDIM
from elbowroom.plugins.samplers.top_p import TopP
from elbowroom.plugins.schedules.gaussian import VPCosine
from elbowroom.plugins.schedules.masking import Cosine
from elbowroom.plugins.time_samplers.uniform import Stratified
from elbowroom.plugins.weightings.paper import Elbo
from torch import nn

CLASSES, STATES = 3, 4


class Labelled(nn.Module):
    """Logits that depend on the label only; the last row is the null label's."""

    def __init__(self, rows: int = CLASSES + 1) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, STATES)
        self.calls = 0
        with torch.no_grad():
            self.table.weight.copy_(torch.randn(rows, STATES, generator=torch.manual_seed(0)))

    def forward(self, z, log_snr, cond):
        self.calls += 1
        return self.table(cond)[:, None].expand(len(z), z.shape[1], STATES)


class LabelMean(nn.Module):
    """Expected data that depends on the label only, as a Gaussian network would say it."""

    def forward(self, z, log_snr, cond):
        return (0.1 * cond.to(z.dtype))[:, None].expand_as(z)


def masked(denoiser: nn.Module, sampler, classes: int | None = CLASSES) -> Diffusion:
    process = Masked().bind(DataSpec((6,), STATES, classes))
    objective = Objective.prepared(process, Cosine(), Elbo(), Stratified())
    return Diffusion(objective, denoiser, sampler)


def test_guided_logits_are_the_formula():
    """Guidance moves from the answer without a label towards, and past, the one with it."""
    denoiser = Labelled()
    z, cond = torch.zeros(3, 2, dtype=torch.long), torch.tensor([0, 1, 2])
    labelled = denoiser(z, None, cond)
    free = denoiser(z, None, torch.full((3,), CLASSES))
    for scale in (0.0, 0.5, 1.0, 3.0):
        wanted = free + scale * (labelled - free)
        assert torch.allclose(Guided(denoiser, CLASSES, scale)(z, None, cond), wanted, atol=1e-6)


def test_the_null_label_is_not_guided():
    """A sample that has the null label gets the answer without a label, at any scale."""
    z, null = torch.zeros(2, 2, dtype=torch.long), torch.full((2,), CLASSES)
    denoiser = Labelled()
    assert torch.allclose(Guided(denoiser, CLASSES, 5.0)(z, None, null), denoiser(z, None, null))


def test_guidance_asks_the_network_once():
    """Both answers come from one call on twice the batch."""
    denoiser = Labelled()
    Guided(denoiser, CLASSES, 2.0)(torch.zeros(2, 2).long(), None, torch.tensor([0, 1]))
    assert denoiser.calls == 1


@pytest.mark.parametrize("scale", [0.0, 1.0, 2.5])
def test_guided_samples_have_the_guided_law(scale):
    """The samples of a guided model come from softmax(free + scale (labelled - free))."""
    denoiser = Labelled()
    model = masked(denoiser, Ancestral(8, guidance=scale))
    cond = torch.full((2000,), 1)
    x = model.sampler.sample(model, Noise.of(0, 2000), cond).x
    labelled, free = denoiser.table.weight[1], denoiser.table.weight[CLASSES]
    law = (free + scale * (labelled - free)).softmax(0)
    share = torch.bincount(x.flatten(), minlength=STATES) / x.numel()
    assert torch.allclose(share, law, atol=0.015)


def test_guidance_one_is_the_model_itself():
    """Guidance 1 neither changes samples nor asks for the null label."""
    denoiser = Labelled(rows=CLASSES)  # it has no null label to ask for
    model = masked(denoiser, Ancestral(8, guidance=1.0))
    assert model.sampler.sample(model, Noise.of(0, 5), torch.tensor([0, 1, 2, 0, 1])).x.shape == (
        5,
        6,
    )


def test_top_p_truncates_the_guided_distribution():
    """Guidance acts before the nucleus is taken."""
    denoiser = Labelled()
    model = masked(denoiser, TopP(8, p=1e-9, guidance=4.0))
    x = model.sampler.sample(model, Noise.of(0, 50), torch.full((50,), 1)).x
    labelled, free = denoiser.table.weight[1], denoiser.table.weight[CLASSES]
    likeliest = (free + 4 * (labelled - free)).argmax()
    assert (x == likeliest).all()


@pytest.mark.parametrize("predict", ["eps", "x", "v", "flow", "edm"])
def test_guidance_of_every_parametrisation_moves_the_expected_data(predict):
    """In every parametrisation the guided expected data is the formula applied to it."""
    process = Gaussian(predict=predict).bind(DataSpec((5,), 16, CLASSES))
    objective = Objective.prepared(process, VPCosine(), Elbo(), Stratified())
    model = Diffusion(objective, LabelMean(), DDIM(4))
    z, cond = Noise.of(0, 3).normal("z", (5,), torch.float64), torch.tensor([0, 1, 2])
    level = DDIM(4).levels(model).select(torch.full((3,), 2)).over(z)
    labelled = model.predict(z, level, cond).x
    free = model.predict(z, level, torch.full((3,), CLASSES)).x
    moved = model.guided(3.0).predict(z, level, cond).x
    assert torch.allclose(moved, free + 3 * (labelled - free), atol=1e-5)


def test_guidance_shares_the_weights():
    """A guided model copies nothing: training goes on in the same parameters."""
    model = masked(Labelled(), Ancestral(8))
    wrapped = model.guided(2.0)
    assert {id(p) for p in wrapped.parameters()} == {id(p) for p in model.parameters()}


def test_guidance_without_labels_says_so():
    """Data without classes, samples without labels, and networks without a null label."""
    guided = Ancestral(4, guidance=2.0)
    with pytest.raises(ElbowroomError, match="data has none"):
        guided.sample(masked(Labelled(), guided, None), Noise.of(0, 2))
    model = masked(Labelled(), Ancestral(4, guidance=2.0))
    with pytest.raises(ElbowroomError, match="a label for each sample"):
        model.sampler.sample(model, Noise.of(0, 2))
    lacking = masked(Labelled(rows=CLASSES), Ancestral(4, guidance=2.0))
    with pytest.raises(ElbowroomError, match="label dropout"):
        lacking.sampler.sample(lacking, Noise.of(0, 2), torch.tensor([0, 1]))


def test_a_negative_scale_is_refused():
    """Guidance below 0 has no meaning."""
    with pytest.raises(ValueError, match="guidance"):
        attrs.evolve(Ancestral(4), guidance=-1.0)

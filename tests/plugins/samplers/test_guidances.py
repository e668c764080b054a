"""Guidance in an interval, and by a worse model: the formulas, and where they are the model."""

from __future__ import annotations

import math

import attrs
import pytest
import torch
from elbowroom import IncompatibleError, Noise, train
from elbowroom.objective.classifier_free import ClassifierFree
from elbowroom.plugins.conformance import check_guidance
from elbowroom.plugins.samplers.autoguidance import Autoguidance
from elbowroom.plugins.samplers.interval import Interval
from elbowroom.runs.load import load_run
from torch import nn

from tests.helpers.command import elbowroom
from tests.helpers.tiny_run import tiny_config

PROCESSES = ("masked", "gaussian")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each process, with an earlier checkpoint that was kept."""
    home = tmp_path_factory.mktemp("runs")
    for process in PROCESSES:
        chosen = tiny_config(process, milestones=(4,), learning_rate=0.05)
        train(chosen, home / process, without=("console", "tensorboard"))
    return home


class Labelled(nn.Module):
    """What each label says; the last row is 'no label'."""

    def __init__(self):
        super().__init__()
        self.rows = nn.Parameter(torch.tensor([0.5, -1.0, 2.0, 0.25], dtype=torch.float64))
        self.seen = 0

    def forward(self, z, log_snr, cond):
        self.seen += len(z)
        return z + self.rows[cond][:, None]


def asked(guidance, log_snr):
    network = Labelled()
    z = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(6, 2)
    guided = guidance(network, 3)
    with torch.no_grad():
        return guided(z, log_snr, torch.arange(6) % 3), network.seen


def test_an_interval_is_guided_inside_and_the_model_outside():
    """Row by row, ends included; a batch outside is asked once on a CPU."""
    log_snr = torch.tensor([-5.0, -1.0, 0.0, 2.0, 2.1, 9.0])
    found, _ = asked(Interval(3.0, low=-1.0, high=2.0), log_snr)
    model, _ = asked(ClassifierFree(1.0), log_snr)
    whole, _ = asked(ClassifierFree(3.0), log_snr)
    inside = torch.tensor([False, True, True, True, False, False])
    assert torch.equal(found[~inside], model[~inside])
    assert torch.allclose(found[inside], whole[inside], rtol=1e-12)
    assert not torch.allclose(found[inside], model[inside])
    assert asked(Interval(3.0, low=-1.0, high=2.0), log_snr - 99)[1] == 6


@pytest.mark.parametrize(
    "guidance", [Interval(1.0), Interval(3.0, low=1.0, high=0.0)], ids=["scale 1", "empty"]
)
def test_nothing_to_guide_is_the_model_itself(guidance):
    """Scale 1 and an empty interval return the very network."""
    network = Labelled()
    assert guidance(network, 3) is network


def test_an_interval_keeps_the_laws():
    """Those of every guidance; without ends it is classifier-free guidance."""
    check_guidance(Interval(2.0))
    everywhere = Interval(2.0, low=-math.inf, high=math.inf)
    log_snr = torch.linspace(-9, 9, 6)
    assert torch.allclose(asked(everywhere, log_snr)[0], asked(ClassifierFree(2.0), log_snr)[0])


@pytest.mark.parametrize("process", PROCESSES)
def test_autoguidance_is_its_formula(runs, process):
    """Guide plus scale times the way from guide to model; the guide is an earlier checkpoint."""
    model = load_run(runs / process, checkpoint="last").model
    early = load_run(runs / process, checkpoint=4).model
    way = Autoguidance(runs / process, 2.5, checkpoint="4")
    noise = Noise.of(0, 3)
    z, cond = model.process.prior(noise), torch.arange(3)
    log_snr = torch.zeros(3)
    with torch.no_grad():
        ours, theirs = (m.denoiser(z, log_snr, cond) for m in (model, early))
        found = model.guided(way).denoiser(z, log_snr, cond)
        outside = attrs.evolve(way, low=1.0)(model.denoiser, 10)(z, log_snr, cond)
    assert not torch.allclose(ours, theirs)
    assert torch.allclose(found, theirs + 2.5 * (ours - theirs), atol=1e-5)
    assert torch.equal(outside, ours)


@pytest.mark.parametrize("process", PROCESSES)
def test_a_guide_that_is_the_model_and_scale_one_change_no_sample(runs, process):
    """Bit by bit; scale 1 does not even look for the run."""
    loaded = load_run(runs / process, checkpoint="last")
    labels = torch.arange(6)

    def drawn(guidance):
        sampler = attrs.evolve(loaded.model.sampler, guidance=guidance)
        return sampler.sample(loaded.model, Noise.of(0, 6), labels).x

    plain = drawn(1.0)
    assert torch.equal(drawn(Autoguidance(runs / process, 3.0, checkpoint="last")), plain)
    assert torch.equal(drawn(Autoguidance(runs / "nowhere", 1.0)), plain)
    assert not torch.equal(drawn(Autoguidance(runs / process, 30.0, checkpoint="4")), plain)


def test_a_guide_of_another_process_is_refused(runs):
    """Outputs that mean other things cannot be subtracted."""
    model = load_run(runs / "gaussian").model
    with pytest.raises(IncompatibleError, match="another process"):
        model.guided(Autoguidance(runs / "masked", 2.0))


def test_commands_take_a_guide_by_its_run(runs, tmp_path):
    """``sample`` and ``evaluate``, without label dropout; a run that is not there is named."""
    way = f"sampler.guidance={{name: autoguidance, run: {runs / 'masked'}, checkpoint: '4'}}"
    drawn = elbowroom("sample", runs / "masked", way, "--count", 4, "--out", tmp_path / "s")
    assert drawn.code == 0, drawn.err
    judged = elbowroom(
        *("evaluate", runs / "masked", way, "--samples", 4, "--metric", "neighbours"),
        *("--out", tmp_path / "e"),
    )
    assert judged.code == 0, judged.err
    lost = elbowroom("sample", runs / "masked", way.replace("masked,", "nowhere,"))
    assert lost.code == 2 and "nowhere" in lost.err
    refused = elbowroom("sample", runs / "masked", "sampler.guidance={name: interval}")
    assert refused.code == 2 and "label_dropout" in refused.err

"""A weighting that moves from one to another in the course of training."""

from __future__ import annotations

import pytest
import torch
from elbowroom import Level
from elbowroom.certificate.certificate import certify
from elbowroom.config.sections import load_config
from elbowroom.conformance import check_weighting
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.schedules.gaussian import VPCosine
from elbowroom.plugins.schedules.masking import Cosine
from elbowroom.plugins.weightings.isotonic import Isotonic
from elbowroom.plugins.weightings.moving import Moving
from elbowroom.plugins.weightings.paper import EDM, Elbo, FlowMatching, Sigmoid
from elbowroom.plugins.weightings.simple import Simple
from elbowroom.runs.folder import RunFolder

from tests.helpers.tiny_run import same, tiny_config, trained_and_cut

SETTINGS = [(Masked(), Cosine()), (Gaussian(), VPCosine())]


def test_conforms():
    check_weighting(Moving(begin=Sigmoid(), end=Elbo(), over=20))


@pytest.mark.parametrize(("process", "schedule"), SETTINGS, ids=["masked", "gaussian"])
@pytest.mark.parametrize("end", [Sigmoid(), FlowMatching()])
def test_every_moment_between_two_bounds_is_one(process, schedule, end):
    """From the repair of a bell to a monotone weighting, also one that is infinite at t = 1."""
    weighting = Moving(begin=Isotonic(EDM()), end=end, over=10)
    for updates in (0, 1, 5, 10, 11):
        weighting.updates.fill_(updates)
        assert certify(weighting, schedule, process).is_bound


def test_begins_as_the_one_and_ends_as_the_other():
    """Up to a factor, which makes the mean weight on the plain loss 1 at every moment."""
    process, schedule = SETTINGS[0]
    weighting = Moving(begin=Sigmoid(), end=Simple(), over=4).prepared(schedule, process)
    t = (torch.arange(512).double() + 0.5) / 512
    level = Level.of(t, schedule, process)
    for updates, part in ((0, Sigmoid()), (4, Simple())):
        weighting.updates.fill_(updates)
        ratio = weighting.plain_weight(level) / part.plain_weight(level)
        torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio))
    for updates in range(6):
        weighting.updates.fill_(updates)
        assert weighting.plain_weight(level).mean().item() == pytest.approx(1)


def test_a_run_moves_and_resumes_exactly(tmp_path):
    """Updates are counted in checkpoints, and the log has the certificate."""
    config = load_config(
        tiny_config(steps=9, save_every=3, keep=9),
        {"weighting": {"name": "moving", "begin": "iddpm", "end": "sigmoid", "over": 6}},
    )
    last, resumed = trained_and_cut(config, tmp_path)
    assert same(last, resumed)
    bounds = [row["is_bound"] for row in RunFolder(tmp_path / "whole").rows()]
    assert bounds[0] == 0 and bounds[-1] == 1  # iddpm is none, sigmoid is one

"""Times that adapt to the losses, and what a run keeps of them."""

from __future__ import annotations

import pytest
import torch
from elbowroom import Losses, Noise
from elbowroom.config.sections import load_config
from elbowroom.errors import ConfigError
from elbowroom.plugins.conformance import check_time_sampler
from elbowroom.plugins.time_samplers.adaptive import AdaptiveTimes, InformationTimes
from elbowroom.runs.folder import RunFolder

from tests.helpers.tiny_run import same, tiny_config, trained_and_cut


def losses_of(times, step, mean, deviation, batch=256):
    """Losses g / p whose g has a known mean and standard deviation at each time."""
    noise = Noise.of(0, batch, step=step)
    t, density = times.draw(noise)
    g = mean(t) + deviation(t) * noise.normal("losses", dtype=torch.float64)
    each = g / density
    return Losses(each.mean(), each, each, 8 - 16 * t, t, density)


def learned(times, mean, deviation, steps=400):
    for step in range(steps):
        times.adapt(times.statistics(losses_of(times, step, mean, deviation)))
    return times


@pytest.mark.parametrize("times", [AdaptiveTimes(), InformationTimes(bins=7, uniform=1.0)])
def test_conforms(times):
    """Every law of a time sampler, before and after it has learned."""
    check_time_sampler(times)


def test_times_follow_the_standard_deviation_of_the_loss():
    """The density of least variance, mixed with its uniform part, whatever the mean loss is."""
    times = AdaptiveTimes(bins=16, uniform=0.1, memory=10_000)
    learned(times, lambda t: 5 * torch.ones_like(t), lambda t: 0.2 + 3 * t)
    middle = (torch.arange(16, dtype=torch.float64) + 0.5) / 16
    due = 0.1 + 0.9 * (0.2 + 3 * middle) / (0.2 + 3 * middle).mean()
    torch.testing.assert_close(times.density, due, rtol=0.06, atol=0.02)


def test_the_estimator_gets_a_smaller_variance():
    """int Var/p of the learned density is near the least there is, and below that of uniform."""

    def deviation(t):
        return 0.01 + torch.exp(-((t - 0.3) ** 2) / 0.005)

    times = learned(AdaptiveTimes(uniform=0.1, memory=10_000), torch.zeros_like, deviation)
    t = (torch.arange(64, dtype=torch.float64) + 0.5) / 64
    variance = deviation(t) ** 2
    uniform, least = variance.mean(), deviation(t).mean() ** 2
    reached = (variance / times.density).mean()
    assert least < reached < 1.2 * least < 0.5 * uniform


def test_information_times_give_each_stretch_its_share_of_the_bound():
    """The density is the ELBO's loss over time."""
    times = InformationTimes(bins=8, uniform=0.1, memory=10_000)
    learned(times, lambda t: 1 + 4 * t, lambda t: 0.5 * torch.ones_like(t))
    middle = (torch.arange(8, dtype=torch.float64) + 0.5) / 8
    due = 0.1 + 0.9 * (1 + 4 * middle) / 3
    torch.testing.assert_close(times.density, due, rtol=0.03, atol=0.01)


def test_bins_that_were_not_seen_are_taken_for_usual_ones():
    """A few looks change nothing; losses without any spread leave times uniform."""
    few = AdaptiveTimes(bins=64)
    few.adapt(few.statistics(losses_of(few, 0, torch.ones_like, torch.ones_like, batch=32)))
    assert (few.density == 1).all()
    flat = learned(AdaptiveTimes(), torch.ones_like, torch.zeros_like, steps=20)
    torch.testing.assert_close(flat.density, torch.ones_like(flat.density), atol=1e-6, rtol=0)


def test_a_run_keeps_what_was_learned_and_resumes_exactly(tmp_path):
    """The sums are in the checkpoint, the density is in the log, a stop leaves no trace."""
    config = load_config(
        tiny_config(steps=9, save_every=3, keep=9),
        {"objective": {"times": {"name": "adaptive", "bins": 2}}},
    )
    last, resumed = trained_and_cut(config, tmp_path)
    assert same(last, resumed)
    assert last.read("model")["times.density"].ne(1).all()
    logged = RunFolder(tmp_path / "whole").rows()[-1]["curves"]["time_density"]
    assert logged[0] == [0.25, 0.75]
    assert logged[1] == pytest.approx(last.read("model")["times.density"].tolist(), rel=1e-5)


@pytest.mark.parametrize("options", [{"bins": 0}, {"uniform": 0.0}, {"memory": 0}])
def test_options_that_mean_nothing_are_refused(options):
    """A density needs bins, a floor and a memory."""
    with pytest.raises(ConfigError, match="at least 1"):
        load_config(
            tiny_config(), {"objective": {"times": {"name": "adaptive", **options}}}
        ).objective.times.build()

"""Pairs: two looks at one example with mirrored noise, and the same objective."""

from __future__ import annotations

import pytest
import torch
from elbowroom import DataSpec, ElbowroomError, IncompatibleError, Noise
from elbowroom.config.assembly import build_parts
from elbowroom.config.sections import load_config
from elbowroom.conformance import check_time_sampler
from elbowroom.contracts.level import Level
from elbowroom.objective.loss import Objective
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.schedules.gaussian import LinearLogSNR, VPCosine
from elbowroom.plugins.schedules.masking import Cosine, Linear, Polynomial
from elbowroom.plugins.time_samplers.pairs import Antithetic, Complementary
from elbowroom.plugins.time_samplers.uniform import Stratified
from elbowroom.plugins.weightings.paper import Elbo
from elbowroom.runs.ranks import Ranks
from elbowroom.training.batches import Feed, with_labels_dropped
from elbowroom.training.run import train
from elbowroom.training.step import Training

from tests.helpers.accelerated import CPU, model
from tests.helpers.tiny_run import tiny_config

SPEC = DataSpec((40,), levels=4)
PAIRS = Noise.of(7, 64).in_pairs()
EVEN, ODD = slice(0, None, 2), slice(1, None, 2)


SCHEDULES = [
    Linear(),
    Cosine(),
    Cosine(eps=1e-6),
    Polynomial(exponent=3.0),
    Polynomial(exponent=8.0, eps=0.0),  # most early times have no partner below 1 in float64
    Cosine(eps=0.0),
    VPCosine(log_snr_max=4.0),  # further on the side of noise
    LinearLogSNR(13.3, -5.0),  # further on that of data
    LinearLogSNR(9.0, 1.0),  # no level has a partner
]


@pytest.mark.parametrize("times", [Antithetic(), Complementary()])
def test_conforms(times):
    """Both looks of a pair together are unbiased."""
    check_time_sampler(times)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_shares_of_a_pair_add_up_to_one(schedule):
    """Where the schedule has both levels; elsewhere both looks are at one."""
    times = Complementary().for_schedule(schedule)
    t, density = times.draw(PAIRS)
    log_snr = schedule.log_snr(t)
    first, second = log_snr[EVEN], log_snr[ODD]
    low, high = schedule.log_snr(torch.tensor([1.0, 0.0], dtype=torch.float64))
    inside = (first + second).abs() < 1e-4
    assert torch.equal(first[~inside], second[~inside])
    assert (first[~inside].abs() > torch.minimum(-low, high).clamp(max=20)).all()
    assert (density[EVEN][~inside] == 1).all() and (density >= 0.5).all()


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_the_density_of_a_pair_is_that_of_its_times(schedule):
    """The mean over both looks of f/density is the integral of f, by midpoints of a fine grid."""
    times = Complementary().for_schedule(schedule)
    t = (torch.arange(200_000, dtype=torch.float64) + 0.5) / 200_000
    partner = times.partner(t)
    slope = schedule.rate(t) / schedule.rate(partner)
    for f in (torch.ones_like, lambda t: t, lambda t: (3 * t).cos(), lambda t: (-8 * t).exp()):
        here, there = 2 / (1 + slope), 2 / (1 + 1 / slope)
        found = (f(t) * here + f(partner) * there).mean() / 2
        assert found.item() == pytest.approx(f(t).mean().item(), abs=1e-5)


def test_partners_change_places():
    """m(m(t)) = t."""
    t = (torch.arange(999, dtype=torch.float64) + 1) / 1000
    for schedule in SCHEDULES:
        times = Complementary().for_schedule(schedule)
        torch.testing.assert_close(times.partner(times.partner(t)), t, rtol=0, atol=1e-6)


def test_complementary_times_need_one_level_a_time():
    class PerToken(Linear):
        def log_snr(self, t):
            return super().log_snr(t)[:, None] + torch.arange(3)

    with pytest.raises(IncompatibleError, match="one log-SNR a time, and schedule PerToken"):
        Complementary().for_schedule(PerToken())
    with pytest.raises(RuntimeError, match="for_schedule"):
        Complementary().draw(PAIRS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_noise_is_mirrored(dtype):
    """u + u' = 1 and e + e' = 0, exactly; the first of a pair has the numbers of its stream."""
    u, e = PAIRS.uniform("a", (5,), dtype), PAIRS.normal("b", (5,), dtype)
    assert torch.equal(u[EVEN], 1 - u[ODD]) and torch.equal(e[EVEN], -e[ODD])
    assert torch.equal(u[EVEN], Noise.of(7, 32).uniform("a", (5,), dtype))
    assert ((u > 0) & (u < 1)).all()
    part = PAIRS.select(slice(3, 9))
    assert torch.equal(part.uniform("a", (5,), dtype), u[3:9])
    assert torch.equal(PAIRS.unmirrored.uniform("a")[EVEN], PAIRS.unmirrored.uniform("a")[ODD])


def looks(times, process, schedule):
    """z of the two looks at each example, and the share of signal of the first."""
    process = process.bind(SPEC)
    x = process.encode((torch.arange(32 * 40).reshape(32, 40) % 4).repeat_interleave(2, 0))
    level = Level.of(times.for_schedule(schedule).draw(PAIRS)[0], schedule, process).over(x)
    z = process.corrupt(x, level, PAIRS)
    return z[EVEN], z[ODD], level.select(EVEN), x[EVEN]


@pytest.mark.parametrize("schedule", SCHEDULES[:4], ids=str)
def test_complements_hide_what_the_other_shows(schedule):
    """Of each token exactly one look has it."""
    first, second, _, _ = looks(Complementary(), Masked(), schedule)
    assert torch.equal(first == 4, second != 4)


def test_antithetic_masks_overlap_as_little_as_they_can():
    first, second, level, _ = looks(Antithetic(), Masked(), Linear())
    few = (level.share < 0.5).expand_as(first)
    assert not ((first != 4) & (second != 4))[few].any()
    assert not ((first == 4) & (second == 4))[~few].any()


def test_antithetic_gaussian_noise_cancels():
    first, second, level, x = looks(Antithetic(), Gaussian(), VPCosine())
    torch.testing.assert_close((first + second) / 2, (level.share.sqrt() * x).to(first.dtype))


@pytest.mark.parametrize("times", [Antithetic(), Complementary()])
def test_the_objective_is_the_same(times):
    """Over many batches the mean of the loss is that of stratified times."""
    process = Gaussian(predict="v").bind(SPEC)
    x = process.encode(torch.arange(64 * 40).reshape(64, 40) % 4)

    def mean(times, pairs):
        objective = Objective.prepared(process, VPCosine(log_snr_max=4.0), Elbo(), times)
        given = x[:32].repeat_interleave(2, 0) if pairs else x[:32]
        found = []
        for step in range(200):
            noise = Noise.of(5, len(given), step=step)
            noise = noise.in_pairs() if pairs else noise
            predict = lambda z, level: process.read(-0.4 * z, z, level)  # noqa: E731
            found.append(objective(predict, given, noise).loss)
        each = torch.stack(found).double()
        return each.mean().item(), each.std().item() / 200**0.5

    (plain, error), (paired, other) = mean(Stratified(), False), mean(times, True)
    assert paired == pytest.approx(plain, abs=4 * (error**2 + other**2) ** 0.5)


@pytest.mark.parametrize("world", [1, 2, 4])
def test_ranks_share_pairs(world):
    """Example, label and dropped label are shared by a pair, on any number of ranks."""
    split, found = build_parts(tiny_config()).data.split("train"), []
    for rank in range(world):
        feed = Feed(split, 1, 8, Ranks(CPU, rank, world), paired=True)
        batch, noise = feed(3), feed.noise(3)
        feed.close()
        found.append((batch.x, with_labels_dropped(batch.y, 0.5, 10, noise), noise.normal("e")))
    x, labels, e = (torch.cat(each) for each in zip(*found, strict=True))
    assert torch.equal(x[EVEN], x[ODD]) and torch.equal(labels[EVEN], labels[ODD])
    assert torch.equal(e[EVEN], -e[ODD])
    assert len(x[EVEN].flatten(1).unique(dim=0)) == 4
    assert (labels == 10).any() and (labels != 10).any()


def test_a_run_trains_on_pairs():
    """The time sampler of a config decides."""
    config = load_config(tiny_config(), {"objective.times": "antithetic"})
    parts = build_parts(config)
    training = Training(model(parts, CPU), parts.data, config.train, seed=1, ranks=Ranks(CPU))
    x, _, noise = training.batch(0)
    training.feed.close()
    assert torch.equal(x[EVEN], x[ODD]) and noise.mirrored.sum() == 4


def test_an_odd_batch_is_refused_before_a_folder_is_made(tmp_path):
    config = load_config(tiny_config(batch_size=7), {"objective.times": "antithetic"})
    with pytest.raises(ElbowroomError, match=r"train\.batch_size: .* 7 is odd"):
        train(config, tmp_path / "run", without={"console", "tensorboard"})
    assert not (tmp_path / "run").exists()

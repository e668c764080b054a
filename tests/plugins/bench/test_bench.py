"""The benchmark: it measures what it says, and says it plainly."""

from __future__ import annotations

from random import Random

import pytest
from elbowroom.plugins.bench.bench import BenchReport, Timing

from tests.helpers.command import elbowroom

TINY = (
    "denoiser={name: uvit, width: 32, depth: 1, channels: 32}",
    "train={steps: 4, batch_size: 8}",
    "sampler.steps=4",
)


@pytest.mark.parametrize("process", ["masked", "gaussian"])
def test_bench_times_every_rival_in_every_round(process):
    """Train step, bare loop, every sampler of the process."""
    ran = elbowroom(
        "bench", "digits", f"process={process}", *TINY, "--rounds", 2, "--samples", 2, "--json"
    )
    assert ran.code == 0, ran.err
    told = ran.json
    assert {"train step", "bare loop"} <= set(told["timings"])
    assert {f"{loop}, replayed network" for loop in ("train step", "bare loop")} < set(
        told["timings"]
    )
    samplers = {name for name in told["timings"] if name.startswith("sampler ")}
    assert "sampler ancestral" in samplers and "sampler ancestral, every step" in samplers
    assert ("sampler ddim" in samplers) == (process == "gaussian")
    assert all(row["seconds"] > 0 for row in told["timings"].values())
    assert 0 < told["overhead"]["low"] <= told["overhead"]["ratio"] <= told["overhead"]["high"]
    rest = told["overhead_without_network"]
    assert rest["low"] <= rest["ratio"] <= rest["high"]
    assert told["timings"]["sampler ancestral"]["calls"] <= 5


def test_samplers_can_be_chosen_or_left_out():
    """Large networks are measured in training alone; a name that is not there is an error."""
    few = elbowroom(
        "bench", "digits", *TINY, "--rounds", 1, "--sampler", "ancestral", "--json"
    ).json
    assert [name for name in few["timings"] if "sampler" in name] == ["sampler ancestral"]
    none = elbowroom("bench", "digits", *TINY, "--rounds", 1, "--no-samplers", "--json").json
    assert not [name for name in none["timings"] if "sampler" in name]
    wrong = elbowroom("bench", "digits", *TINY, "--sampler", "ddim")
    assert wrong.code == 2 and "ancestral" in wrong.err


def test_no_overhead_is_claimed_where_nothing_is_written_out():
    """The bare loop knows two parametrisations: another has none."""
    given = ("process={name: gaussian, predict: x}", *TINY, "--rounds", 1, "--no-samplers")
    told = elbowroom("bench", "digits", *given, "--json").json
    assert told["overhead"] is None and told["overhead_without_network"] is None
    assert not [name for name in told["timings"] if "bare loop" in name]
    assert "no bare loop" in elbowroom("bench", "digits", *given).out


def test_ratios_are_taken_within_a_round():
    """A round in which everything was slow does not count against either rival."""
    ours, theirs = Timing((1.0, 10.0, 1.1)), Timing((1.0, 10.0, 1.0))
    assert ours.over(theirs).median == pytest.approx(1.0)
    assert ours.minus(theirs).seconds == pytest.approx((0.0, 0.0, 0.1))


def test_what_a_step_takes_beside_the_network_is_a_share_of_the_step():
    """Two seconds without the network against one, of a step of ten: a tenth."""
    rounds = {"train step": 10.0, "bare loop": 9.0}
    rounds |= {"train step, replayed network": 2.0, "bare loop, replayed network": 1.0}
    timings = {name: Timing((each, 2 * each)) for name, each in rounds.items()}
    report = BenchReport(timings, 1, {}, 1)
    assert report.record()["overhead_without_network"] == pytest.approx(
        {"ratio": 0.1, "low": 0.1, "high": 0.1}
    )


@pytest.mark.parametrize("rounds", [1, 2, 5, 6, 7, 41])
def test_the_interval_of_a_median_holds_it_as_often_as_it_says(rounds):
    """Of rounds of a skewed distribution with median 1, in 95 of 100 cases (few rounds: range)."""
    random = Random(rounds)
    cases = [
        Timing(tuple(2 * random.random() ** 3 / 0.25 for _ in range(rounds))) for _ in range(4000)
    ]
    held = [low <= 1 <= high for low, high in (case.interval for case in cases)]
    certain = 0.95 if rounds > 5 else 1 - 2 * 0.5**rounds
    assert certain - 0.03 < sum(held) / len(held) < max(certain, 0.985) + 0.012
    assert all(case.interval[0] <= case.median <= case.interval[1] for case in cases)

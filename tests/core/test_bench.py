"""The benchmark: it measures what it says, and says it plainly."""

from __future__ import annotations

import pytest
from elbowroom.bench import Timing

from tests.core.command import elbowroom

TINY = (
    "denoiser={name: uvit, width: 32, depth: 1, channels: 32}",
    "train={steps: 4, batch_size: 8}",
    "sampler.steps=4",
)


@pytest.mark.parametrize("process", ["masked", "gaussian"])
def test_bench_times_every_rival_in_every_round(process):
    """Train step, bare loop, data, every sampler of the process; shares, calls and memory."""
    ran = elbowroom("bench", f"process={process}", *TINY, "--rounds", 2, "--samples", 2, "--json")
    assert ran.code == 0, ran.err
    told = ran.json
    assert {"matmul", "train step", "bare loop", "data"} <= set(told["timings"])
    samplers = {name for name in told["timings"] if name.startswith("sampler ")}
    assert "sampler ancestral" in samplers and "sampler ancestral, every step" in samplers
    assert ("sampler ddim" in samplers) == (process == "gaussian")
    assert all(row["seconds"] > 0 for row in told["timings"].values())
    assert 0 < told["timings"]["train step"]["peak_share"] < 1
    assert told["overhead"]["ratio"] > 0 and told["peak_bytes"] > 2**20
    assert told["timings"]["sampler ancestral"]["calls"] <= 5


def test_ratios_are_taken_within_a_round():
    """A round in which everything was slow does not count against either rival."""
    ours, theirs = Timing((1.0, 10.0, 1.1)), Timing((1.0, 10.0, 1.0))
    assert ours.over(theirs).median == pytest.approx(1.0)
    assert Timing((2.0, 2.0, 2.0, 2.0)).spread == 0

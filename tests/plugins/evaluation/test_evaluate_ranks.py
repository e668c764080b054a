"""Several ranks sample and evaluate: each sample and each measurement is that of one process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from elbowroom.plugins.evaluation.protocol import EvaluationProtocol
from elbowroom.plugins.evaluation.run import evaluate_run, read_evaluation
from elbowroom.plugins.sampling.drawing import chunk_starts, draw, from_tensors, to_tensors
from elbowroom.plugins.sampling.write import gathered, sample_run
from elbowroom.plugins.training.ranks import Ranks
from elbowroom.plugins.training.run import train
from elbowroom.runs.load import load_run

from tests.helpers.tiny_run import tiny_config

ROOT = Path(__file__).parents[3]
METRICS = (
    "bpd",
    "{name: two-sided, limit: 9, paths: 2, steps: 3}",
    "fid",
    "{name: kid, block: 20}",
    "{name: is, splits: 2}",
    "precision-recall",
    "neighbours",
    "{name: torchmetrics, metric: torchmetrics.image.TotalVariation}",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks") / "run"
    train(tiny_config(steps=4), folder, without={"console", "tensorboard"})
    return folder


def torchrun(*words, processes=2):
    """``torchrun ... -m elbowroom WORDS``; what the ranks printed."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(processes), "-m", "elbowroom", *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    launched = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    try:
        said, _ = launched.communicate(timeout=500)
    except subprocess.TimeoutExpired:
        os.killpg(launched.pid, signal.SIGKILL)  # the ranks too
        raise
    return launched.returncode, said


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_ranks_share_the_chunks_out(world):
    """Every chunk is one rank's, those of a rank follow each other, the first has the first."""
    shares = [list(chunk_starts(23, 5, rank, world)) for rank in range(world)]
    assert [first for share in shares for first in share] == [0, 5, 10, 15, 20]
    assert shares[0][0] == 0
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_chunk_can_be_drawn_alone(run):
    """Each is what drawing all gives; it is restored from tensors."""
    model = load_run(run).model
    before, later, _ = draw(model, 12, None, 3, 5)
    (again,) = draw(model, 12, None, 3, 5, part=(1, 3))
    assert torch.equal(again.x, later.x)
    back = from_tensors(to_tensors(again))
    assert back.first == 5
    assert all(torch.equal(a, b) for a, b in ((back.x, later.x), (back.labels, later.labels)))
    assert gathered([before, later], Ranks(torch.device("cpu"))) == [before, later]


@pytest.mark.slow
def test_two_ranks_measure_what_one_does(run, tmp_path):
    """To rounding, also by a metric that cannot be merged; one of them speaks and writes."""
    asked = ["--samples", "50", "--batch-size", "7", "--sample-seeds", "2"]
    for metric in METRICS:
        asked += ["--metric", metric]
    code, said = torchrun("evaluate", run, *asked, "--out", tmp_path / "two", "--json")
    assert code == 0
    assert json.loads(said)["figures"] == read_evaluation(tmp_path / "two")["figures"]
    protocol = EvaluationProtocol(metrics=METRICS, samples=50, sample_seeds=2)
    one = evaluate_run(run, (), protocol, out=tmp_path / "one", batch_size=7).measurements
    two = read_evaluation(tmp_path / "two")["figures"]
    assert one.keys() == two.keys()
    for name, measurement in one.items():
        assert two[name]["value"] == pytest.approx(measurement["value"], rel=1e-9, abs=1e-12)
        assert two[name]["of"] == measurement["of"]
        assert two[name]["replicates"] == pytest.approx(measurement["replicates"], rel=1e-9)


@pytest.mark.slow
def test_three_ranks_draw_what_one_does(run, tmp_path):
    """Bit by bit, in their order."""
    code, _ = torchrun(
        "sample", run, "--count", 10, "--batch-size", 3, "--out", tmp_path / "three", processes=3
    )
    assert code == 0
    sample_run(run, count=10, batch_size=3, out=tmp_path / "one")
    three, one = (np.load(tmp_path / name / "samples.npz") for name in ("three", "one"))
    assert all(np.array_equal(three[name], one[name]) for name in ("x", "labels", "calls"))


@pytest.mark.slow
def test_what_the_user_can_mend_is_said_once(run, tmp_path):
    """By the first rank; nothing is written."""
    code, said = torchrun("evaluate", run, "--metric", "nothing", "--out", tmp_path / "none")
    assert code == 1  # torchrun's own
    assert said == ""
    assert not (tmp_path / "none").exists()

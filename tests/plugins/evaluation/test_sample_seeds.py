"""Several sample seeds: each metric of samples for each, their mean and its standard error."""

from __future__ import annotations

import statistics

import attrs
import pytest
from elbowroom.plugins.evaluation.protocol import EvaluationProtocol
from elbowroom.plugins.evaluation.run import evaluate_run, read_evaluation
from elbowroom.plugins.sampling import drawing
from elbowroom.plugins.training.run import train

from tests.helpers.command import elbowroom
from tests.helpers.tiny_run import tiny_config

METRICS = ("bpd", "fid", "neighbours")
PROTOCOL = EvaluationProtocol(metrics=METRICS, samples=20, sample_seeds=3, seed=4)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds") / "run"
    train(tiny_config(steps=2), folder, without={"console", "tensorboard"})
    return folder


def measured(run, out, protocol=PROTOCOL):
    return evaluate_run(run, (), protocol, out=out, batch_size=8).measurements


def test_measurements_are_those_of_each_seed(run, tmp_path):
    """Replicates are what an evaluation with that seed alone has; bits/dim is measured once."""
    together = measured(run, tmp_path / "three")
    alone = [
        measured(run, tmp_path / str(seed), attrs.evolve(PROTOCOL, seed=seed, sample_seeds=1))
        for seed in (4, 5, 6)
    ]
    for name in ("fid_train", "fid_test", "neighbours_mean"):
        values = [one[name]["value"] for one in alone]
        assert together[name]["replicates"] == pytest.approx(values, rel=1e-9)
        assert together[name]["value"] == pytest.approx(statistics.fmean(values))
        due = statistics.stdev(values) / 3**0.5
        assert together[name]["standard_error"] == pytest.approx(due)
        assert together[name]["of"]["sample_seeds"] == 3
        assert "3 × 20 samples" in together[name]["heading"]
    assert together["bits_per_dim"] == alone[0]["bits_per_dim"]


def test_a_killed_evaluation_keeps_the_samples_of_all_seeds(run, tmp_path, monkeypatch):
    """Killed in the second seed, it draws no sample of the first again."""
    drawn, draw = [], drawing.draw_chunk

    def watched(model, noise, labels, first, *rest, **options):
        if (noise.seed, first) == (5, 8) and (5, 8) not in drawn:
            drawn.append((5, 8))
            raise KeyboardInterrupt
        drawn.append((noise.seed, first))
        return draw(model, noise, labels, first, *rest, **options)

    monkeypatch.setattr(drawing, "draw_chunk", watched)
    protocol = attrs.evolve(PROTOCOL, metrics=("neighbours",))
    with pytest.raises(KeyboardInterrupt):
        measured(run, tmp_path, protocol)
    drawn[:] = [(5, 8)]
    measured(run, tmp_path, protocol)
    assert drawn[1:6] == [(5, 8), (5, 16), (6, 0), (6, 8), (6, 16)]
    assert not (tmp_path / "shards").exists()


def test_the_command_states_what_the_error_includes(run, tmp_path):
    """--sample-seeds is part of the protocol; one below 1 is refused."""
    words = ["evaluate", run, "--samples", "20", "--metric", "fid", "--out", tmp_path / "out"]
    ran = elbowroom(*words, "--sample-seeds", "2")
    assert ran.code == 0
    assert "over 2 sample seeds (1 degree of freedom" in " ".join(ran.out.split())
    assert "a 95 % interval is ± 12.7 se" in " ".join(ran.out.split())
    assert read_evaluation(tmp_path / "out")["protocol"]["sample_seeds"] == 2
    assert elbowroom(*words, "--sample-seeds", "0").code == 2

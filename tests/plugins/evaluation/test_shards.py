"""A killed evaluation goes on with the samples it had drawn, and believes no others."""

from __future__ import annotations

import pytest
from elbowroom.plugins.evaluation.protocol import EvaluationProtocol
from elbowroom.plugins.evaluation.run import evaluate_run
from elbowroom.plugins.sampling import drawing
from elbowroom.plugins.training.run import train

from tests.helpers.tiny_run import tiny_config

PROTOCOL = EvaluationProtocol(metrics=("neighbours",), samples=20)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards") / "run"
    train(tiny_config(steps=2), folder, without={"console", "tensorboard"})
    return folder


@pytest.fixture
def drawn(monkeypatch):
    """The first sample of each chunk that is drawn; at number 15 the process is killed, once."""
    numbers, draw = [], drawing.draw_chunk

    def watched(model, noise, labels, first, *rest, **options):
        numbers.append(first)
        if first == 15 and numbers.count(15) == 1:
            raise KeyboardInterrupt
        return draw(model, noise, labels, first, *rest, **options)

    monkeypatch.setattr(drawing, "draw_chunk", watched)
    return numbers


def measured(run, out, overrides=(), **options):
    asked = {"out": out, "batch_size": 5, **options}
    return evaluate_run(run, overrides, PROTOCOL, **asked).measurements


def killed(run, out, drawn):
    with pytest.raises(KeyboardInterrupt):
        measured(run, out)
    assert len(list((out / "shards").glob("*.safetensors"))) == 3
    drawn.clear()
    drawn.append(15)  # it is killed no more


def test_what_was_drawn_is_not_drawn_again(run, tmp_path, drawn):
    """The measurements are those of an evaluation in one go, and nothing is left of the shards."""
    killed(run, tmp_path / "one", drawn)
    found = measured(run, tmp_path / "one")
    assert [first for first in drawn[1:] if first] == [15]
    assert found == measured(run, tmp_path / "other")
    assert not (tmp_path / "one" / "shards").exists()


def test_a_damaged_shard_is_drawn_again(run, tmp_path, drawn):
    """One byte of a sample is enough, and so is a file of something else."""
    killed(run, tmp_path, drawn)
    flipped, cut = (tmp_path / "shards" / f"{first:09d}.safetensors" for first in (5, 10))
    content = bytearray(flipped.read_bytes())
    content[-1] ^= 1
    flipped.write_bytes(content)
    cut.write_bytes(b"no tensors")
    measured(run, tmp_path)
    assert {5, 10, 15} <= set(drawn[1:])


def test_samples_of_another_sampler_are_not_believed(run, tmp_path, drawn):
    """Every chunk is drawn anew; asked to, the shards are left."""
    killed(run, tmp_path, drawn)
    measured(run, tmp_path, ("sampler.steps=3",), keep_samples=True)
    assert {0, 5, 10, 15} <= set(drawn[1:])
    assert len(list((tmp_path / "shards").iterdir())) == 4

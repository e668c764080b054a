"""What no machine here could hold is refused by a sentence, before memory is asked for."""

from __future__ import annotations

import math

import attrs
import pytest
import torch
from elbowroom import ConfigError, DataSpec
from elbowroom.config import sizes as kept
from elbowroom.config.assembly import build_model, build_parts
from elbowroom.config.sections import load_config
from elbowroom.config.sizes import check_example, check_network, memory
from elbowroom.evaluation.evaluation import evaluate
from elbowroom.evaluation.protocol import EvaluationProtocol
from elbowroom.runs.ranks import Ranks
from elbowroom.sampling.drawing import draw
from elbowroom.training.loop import check_run

from tests.helpers.tiny_run import tiny_config

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("train.steps=100000000000000000000000", "train.steps.* it must be < 2147483647"),
        ("objective.steps=100000000000000000000000", "objective.steps.* it must be < 2147483647"),
    ],
)
def test_steps_are_numbers_that_noise_can_be_keyed_by(change, words):
    """A run of 10^23 steps is a slip of the keyboard."""
    with pytest.raises(ConfigError, match=words):
        load_config(tiny_config(), [change])


@pytest.mark.parametrize(
    "change",
    [
        "denoiser.width=1000000000000",
        "denoiser.width=100000000000000000000000",
        "denoiser.depth=1000000000",
        "denoiser.hidden=1000000000000",
        "sampler.steps=1000000000000",
        "sampler.steps=100000000000000000000000",
        "denoiser={name: uvit, width: 1000000000000}",
        "denoiser={name: uvit, depth: 1000000000}",
        "denoiser={name: uvit, depth: 1000000000, width: 1000000000000}",
    ],
)
def test_an_impossible_model_is_refused(change):
    """Its estimate, and what there is."""
    config = load_config(tiny_config(), [change])
    key = change.partition("=")[0].rpartition(".")[2]
    with pytest.raises(ConfigError, match=rf"{key}.* at the least, and this machine has \d"):
        build_model(build_parts(config))


def test_an_impossible_batch_is_refused():
    """A billion examples at once, and a billion ways to look at them."""
    config = load_config(tiny_config(), ["train.batch_size=100000000000"])
    parts = build_parts(config)
    with pytest.raises(ConfigError, match=r"train.batch_size=100000000000: a batch .*takes .* TiB"):
        check_run(build_model(parts), parts.data, config.train, Ranks(CPU))


def test_training_holds_five_numbers_for_each_weight(monkeypatch):
    """Weights, gradients, two moments and the average; sharded, each rank has its part."""
    parts = build_parts(load_config(tiny_config(), ["train.parallel=fsdp"]))
    model = build_model(parts)
    held = sum(p.numel() * p.element_size() for p in model.parameters())
    monkeypatch.setattr(kept, "memory", lambda _: 5 * held - 1)
    with pytest.raises(ConfigError, match="training a network whose weights take"):
        check_run(model, parts.data, parts.config.train, Ranks(CPU))
    kept.check_room_to_train(model, parts.config.train, Ranks(CPU, world=2))
    monkeypatch.setattr(kept, "memory", lambda _: 5 * held)
    kept.check_room_to_train(model, parts.config.train, Ranks(CPU))


def test_impossibly_many_samples_are_refused():
    """In drawing and in evaluation."""
    parts = build_parts(tiny_config())
    model = build_model(parts)
    with pytest.raises(ConfigError, match="samples: their labels alone"):
        next(draw(model, 10**15))
    with pytest.raises(ConfigError, match=r"samples of shape \[4, 4, 1\]"):
        next(draw(model, 10**9, batch_size=10**12))
    with pytest.raises(ConfigError, match="samples: their labels alone"):
        evaluate(model, parts.data, EvaluationProtocol(samples=10**15))


def test_an_impossible_example_is_refused():
    """Pictures of a million by a million pixels."""
    with pytest.raises(ConfigError, match=r"one example of shape \[1000000, 1000000, 3\]"):
        check_example(DataSpec((10**6, 10**6, 3), 256))
    check_example(DataSpec((1024, 1024, 3), 256))


@pytest.mark.parametrize("name", ["dit", "uvit"])
def test_the_estimate_is_the_size_of_the_network(name):
    """What is counted without memory is what the network has."""
    config = load_config(tiny_config(), [f"denoiser={{name: {name}, width: 48, depth: 3}}"])
    parts = build_parts(config)
    network = build_model(parts).denoiser
    tensors = sum(p.numel() * p.element_size() for p in network.parameters())
    due = tensors + 1024 * len(list(network.modules()))
    assert kept._bytes(config.denoiser, parts.process.signature()) == due


@pytest.mark.parametrize("option", ["width", "depth"])
def test_a_large_model_is_legal_where_there_is_memory_for_it(monkeypatch, option):
    """The bound from two small networks never exceeds the network itself."""
    monkeypatch.setattr(kept, "_LARGE", 100)
    parts = build_parts(tiny_config())
    spec, signature = parts.config.denoiser, parts.process.signature()
    large = attrs.evolve(spec, options={**spec.options, option: 576})
    size = kept._bytes(large, signature)
    monkeypatch.setattr(kept, "memory", lambda _: size)
    check_network(large, signature)
    monkeypatch.setattr(kept, "memory", lambda _: size - 1)
    with pytest.raises(ConfigError, match=f"{option}=576"):
        check_network(large, signature)


def test_there_is_memory_here():
    """A number that this test fits into, and a machine that cannot be asked is not doubted."""
    assert 2**26 < memory() < math.inf

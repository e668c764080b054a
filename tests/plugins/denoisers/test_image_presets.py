"""The presets for images: complete, and the paper's where they claim to be."""

from __future__ import annotations

import pytest
import torch
from elbowroom.config.sections import load_config
from elbowroom.contracts.process import Signature

SIGNATURES = {
    "digits": Signature((8, 8, 1), 18, 17, 10, False),
    "fashion-mnist": Signature((28, 28, 1), 257, 256, 10, False),
    "cifar10": Signature((32, 32, 3), 257, 256, 10, False),
    "imagenet64-204m": Signature((64, 64, 3), 257, 256, 1000, False),
    "imagenet64-324m": Signature((64, 64, 3), 257, 256, 1000, False),
}


def parameters(preset, signature):
    with torch.device("meta"):
        network = load_config(preset).denoiser.build(signature)
    return sum(p.numel() for p in network.parameters())


@pytest.mark.parametrize("preset", SIGNATURES)
def test_preset_builds_for_both_processes(preset):
    """Each preset names a network that can be built, whichever the process."""
    config = load_config(preset)
    assert config.data is not None
    assert config.sampler is not None
    given = SIGNATURES[preset]
    parameters(preset, given)
    parameters(preset, Signature(given.shape, None, None, given.classes, True))


@pytest.mark.parametrize(
    ("preset", "count"), [("imagenet64-204m", 203_462_912), ("imagenet64-324m", 323_440_640)]
)
def test_paper_presets_have_the_papers_size(preset, count):
    """The paper's networks have the parameters counted for them (positions not among them)."""
    assert parameters(preset, SIGNATURES[preset]) == count


@pytest.mark.parametrize(("preset", "batch"), [("imagenet64-204m", 512), ("imagenet64-324m", 1024)])
@pytest.mark.parametrize("weighting", ["elbo", "edm", "iddpm", "sigmoid", "fm", "simple"])
def test_paper_presets_train_as_the_paper(preset, batch, weighting):
    """Training values are those of the paper's table, with any of its weightings."""
    config = load_config(preset, {"weighting": weighting})
    train = config.train
    assert (config.process.name, config.schedule.name) == ("masked", "cosine")
    assert config.weighting.name == weighting
    assert (train.steps, train.batch_size, train.learning_rate) == (2_000_000, batch, 2e-4)
    assert (train.betas, train.weight_decay, train.clip_norm) == ((0.9, 0.99), 0.03, None)
    assert (train.warmup, train.ema, train.precision) == (100, 0.9999, "bfloat16")
    options = config.denoiser.options
    assert (options["dropout"], options["attention_dropout"], options["time"]) == (0.1, 0.1, "auto")


def test_digits_preset_is_small():
    """The network of the digits has less than a million parameters, for either process."""
    given = SIGNATURES["digits"]
    assert parameters("digits", given) < 1_000_000
    assert parameters("digits", Signature(given.shape, None, None, 10, True)) < 1_000_000

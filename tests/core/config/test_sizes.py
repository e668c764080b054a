"""Sizes that no memory holds: one sentence."""

from __future__ import annotations

import pytest
from elbowroom import ConfigError
from elbowroom.config.assembly import build_model, build_parts
from elbowroom.config.sections import load_config

from tests.helpers.command import elbowroom
from tests.helpers.tiny_run import tiny_config


@pytest.mark.parametrize("key", ["train.steps", "objective.steps"])
def test_steps_are_numbers_that_noise_can_be_keyed_by(key):
    """A run of 10^23 steps is a slip of the keyboard."""
    with pytest.raises(ConfigError, match=rf"{key}.* it must be < 2147483647"):
        load_config(tiny_config(), [f"{key}=100000000000000000000000"])


@pytest.mark.parametrize(
    "change",
    [
        "denoiser.width=1000000000",
        "denoiser.width=1000000000000",
        "denoiser.width=100000000000000000000000",
        "denoiser={name: uvit, width: 1000000000000}",
        "denoiser={name: unet, multiples: [1, 1000000]}",
    ],
)
def test_a_network_that_no_memory_holds_is_refused(change):
    """The sentence has the option."""
    config = load_config(tiny_config("gaussian"), [change])
    with pytest.raises(ConfigError, match=r"^denoiser: not enough memory for denoiser '.*1000000"):
        build_model(build_parts(config))


@pytest.mark.parametrize(
    "change", ["sampler.steps=1000000000000", "train.batch_size=1000000000000"]
)
def test_a_command_that_needs_too_much_memory_ends_in_a_sentence(tmp_path, change):
    """Wherever the allocation fails."""
    from elbowroom.config.sections import dump_yaml

    (tmp_path / "c.yaml").write_text(dump_yaml(tiny_config(steps=1, save_every=1)))
    words = ("train", tmp_path / "c.yaml", "--out", tmp_path / "run", "--without", "console")
    if change.startswith("sampler"):
        assert elbowroom(*words).code == 0
        words = ("sample", tmp_path / "run", "--count", 1)
    ran = elbowroom(*words, change)
    assert ran.code == 2
    assert ran.err.count("error: ") == 1
    assert "memory" in ran.err

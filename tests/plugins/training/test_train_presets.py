"""The shipped baselines run as they are."""

from __future__ import annotations

import pytest
import torch
from elbowroom.config.assembly import build_parts
from elbowroom.config.preset import presets
from elbowroom.config.sections import load_config
from elbowroom.plugins.training.run import train
from elbowroom.runs.folder import RunFolder

BASELINES = [
    "adm-unet",
    "digits",
    "edm",
    "flow-matching",
    "iddpm",
    "masked-edm",
    "masked-elbo",
    "masked-fm",
    "masked-iddpm",
    "masked-image-model",
    "masked-sigmoid",
    "masked-simple",
    "md4",
    "vdm++",
]
QUIET = {"console", "tensorboard"}
SMALL = {
    "data": {"name": "digits", "limit": 40},
    "train.steps": 2,
    "train.batch_size": 4,
    "train.evaluate_every": 2,
    "sampler.steps": 3,
}


@pytest.fixture(autouse=True)
def _few_looks(monkeypatch):
    """A coarse validation is enough here."""
    monkeypatch.setattr("elbowroom.plugins.training.validation._DRAWS", 8)


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_trains_evaluates_and_samples_on_digits(tmp_path, name):
    """With nothing changed but how long and how much."""
    config = load_config(name, SMALL)
    result = train(config, tmp_path / "run", without=QUIET)
    assert result.reason == "finished"
    assert 0 < result.scalars["validation/bits_per_dim"] < 50
    assert RunFolder(tmp_path / "run").config() == build_parts(config).config


def test_a_folder_of_pictures_needs_no_config_of_ones_own(tmp_path):
    """``train images data.path=DIR``, and it learns."""
    from PIL import Image

    for label in ("cat", "dog"):
        (tmp_path / "pictures" / label).mkdir(parents=True)
        for n in range(10):
            picture = (torch.rand(12, 10, 3) * 255).byte().numpy()
            Image.fromarray(picture).save(tmp_path / "pictures" / label / f"{n}.png")
    overrides = [
        f"data.path={tmp_path / 'pictures'}",
        "data.size=8",
        "train.steps=2",
        "train.batch_size=4",
        "train.evaluate_every=null",
        "denoiser.width=32",
        "denoiser.depth=1",
        "denoiser.channels=32",
    ]
    result = train(load_config("images", overrides), tmp_path / "run", without=QUIET)
    assert result.step == 2


@pytest.mark.parametrize(
    "name", [n for n, p in presets().items() if p.owner.distribution == "elbowroom"]
)
def test_every_preset_says_what_it_is_for(name):
    """Its first line, which a listing shows."""
    assert 10 < len(presets()[name].description) < 110

"""ImageNet from its pictures, as MD4 reads them."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from elbowroom.config.sections import load_config
from elbowroom.contracts.dataset import DataSpec
from elbowroom.errors import ElbowroomError
from elbowroom.plugins.datasets.imagenet import ImageNet
from elbowroom.plugins.datasets.imagenet64 import ImageNet64
from PIL import Image

CLASSES = [f"n{k:08}" for k in range(1000)]
WIDE = np.random.default_rng(0).integers(0, 256, (70, 101, 3), dtype=np.uint8)
SMALL = np.random.default_rng(1).integers(0, 256, (50, 40, 3), dtype=np.uint8)


def made(folder: Path) -> Path:
    """A picture for each class in train, and two for the first 20 classes in val.

    Beside them what an unpacked archive may hold: notes, and test pictures without labels.
    """
    (folder / "devkit").mkdir()
    (folder / "test").mkdir()
    Image.fromarray(WIDE).save(folder / "test" / "1.png")
    Image.fromarray(WIDE).save(folder / "wide.png")
    turned = Image.Exif()
    turned[0x0112] = 3  # upside down, says the camera
    Image.fromarray(SMALL).save(folder / "small.png", exif=turned)
    for part, names in {"train": CLASSES, "val": CLASSES[:20]}.items():
        for name in names:
            (folder / part / name).mkdir(parents=True)
            for source in ["wide.png"] if part == "train" else ["wide.png", "small.png"]:
                os.link(folder / source, folder / part / name / source)
    return folder


def like_md4(picture: np.ndarray, size: int) -> np.ndarray:
    """Centre crop, then each new pixel the mean over its own area, in exact numbers."""
    height, width, _ = picture.shape
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    square = picture[top : top + side, left : left + side]
    share = np.array(
        [
            [
                max(
                    0, min(Fraction((i + 1) * side, size), s + 1) - max(Fraction(i * side, size), s)
                )
                for s in range(side)
            ]
            for i in range(size)
        ],
        dtype=float,
    ) * (size / side)
    return np.einsum("is,jt,stc->ijc", share, share, square.astype(float))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return made(tmp_path_factory.mktemp("imagenet"))


@pytest.fixture
def data(folder, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("ELBOWROOM_CACHE", str(folder / "cache"))  # converted once for all tests
    return ImageNet(path=folder)


def test_nothing_is_taken_out_of_train(data):
    """Validation and test are the official validation pictures, each in one of them."""
    assert [len(data.split(name)) for name in ("train", "validation", "test")] == [1000, 4, 36]
    assert data.split("train").take(torch.arange(1000)).y.equal(torch.arange(1000))
    assert data.spec == DataSpec((64, 64, 3), 256, 1000)
    assert data.spec.names == tuple(CLASSES)


def test_pictures_are_cropped_and_resized_as_md4_does(data):
    """The largest centred square; the mean over areas, for smaller pictures too; not turned."""
    train = data.split("train").take(torch.tensor([17])).x[0].numpy()
    assert np.abs(train - like_md4(WIDE, 64)).max() <= 0.5 + 1e-6
    test = data.split("test")
    seen = test.take(torch.arange(len(test))).x.numpy()
    off = np.abs(seen - like_md4(SMALL, 64)).max((1, 2, 3))
    assert 16 <= (off <= 0.5 + 1e-6).sum() <= 20


def test_a_part_of_it_is_refused(folder, tmp_path):
    """Half unpacked is a mistake, and what is missing is told."""
    (tmp_path / "train" / "n0").mkdir(parents=True)
    with pytest.raises(ElbowroomError, match=r"files not found[\s\S]*val/metadata.csv"):
        ImageNet(path=tmp_path).split("train")
    (tmp_path / "val" / "n0").mkdir(parents=True)
    with pytest.raises(ElbowroomError, match="has 1 classes, not 1000: unpack all"):
        ImageNet(path=tmp_path).split("train")
    with pytest.raises(ElbowroomError, match=r"files not found[\s\S]*data=imagenet64"):
        ImageNet(path=tmp_path / "nowhere").split("train")


@pytest.mark.parametrize("preset", ["imagenet64-204m", "imagenet64-324m"])
def test_it_is_what_the_paper_presets_train_on(preset):
    """Explained without the pictures; the downsampled batches come by an override."""
    built = load_config(preset).data.build()
    assert isinstance(built, ImageNet)
    assert built.spec == DataSpec((64, 64, 3), 256, 1000)
    other = load_config(preset, ["data=imagenet64", "data.path=somewhere"]).data.build()
    assert isinstance(other, ImageNet64)

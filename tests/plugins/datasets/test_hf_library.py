"""Data sets through the real Hugging Face library, from local Parquet and picture folders."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from elbowroom import ElbowroomError
from elbowroom.plugins.conformance import check_dataset
from elbowroom.plugins.datasets.hf import HuggingFace
from PIL import Image

try:
    import datasets
except ImportError:
    datasets = None

pytestmark = [
    pytest.mark.extra,
    pytest.mark.skipif(datasets is None, reason="the extra elbowroom[hf] is not installed"),
]


@pytest.fixture(autouse=True)
def offline(tmp_path, monkeypatch):
    """No network, and no cache but the test's own."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


def pixels(seed: int, side: int = 8) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)


def table(first: int, count: int):
    """``count`` pictures in three classes."""
    rows = range(first, first + count)
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b", "c"])}
    )
    columns = {
        "image": [Image.fromarray(pixels(i)) for i in rows],
        "label": [i % 3 for i in rows],
    }
    return datasets.Dataset.from_dict(columns, features=features)


@pytest.fixture
def parquet(tmp_path):
    """A folder of Parquet files, as the hub has them."""
    folder = tmp_path / "parquet"
    (folder / "data").mkdir(parents=True)
    table(0, 30).to_parquet(folder / "data" / "train-00000-of-00001.parquet")
    table(100, 6).to_parquet(folder / "data" / "test-00000-of-00001.parquet")
    return folder


def test_parquet_files_keep_the_laws_and_their_pixels(parquet):
    """Classes, shapes and every pixel are those that were written."""
    data = HuggingFace(path=str(parquet))
    check_dataset(data)
    assert data.spec.shape == (8, 8, 3)
    assert data.spec.classes == 3
    sizes = {name: len(data.split(name)) for name in ("train", "validation", "test")}
    assert sizes == {"train": 27, "validation": 3, "test": 6}
    batch = data.split("test").take(torch.tensor([4, 0]))
    np.testing.assert_array_equal(batch.x.numpy(), np.stack([pixels(104), pixels(100)]))
    assert batch.y.tolist() == [104 % 3, 100 % 3]


def test_a_folder_of_pictures_by_class(tmp_path):
    """Sub-folders are classes; the splits are the top folders."""
    for split, first, count in (("train", 0, 12), ("test", 50, 4)):
        for i in range(first, first + count):
            place = tmp_path / "pictures" / split / ("cat" if i % 2 else "dog")
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels(i)).save(place / f"{i:03}.png")
    data = HuggingFace(path=str(tmp_path / "pictures"))
    check_dataset(data)
    assert data.spec.classes == 2
    test = data.split("test").take(torch.arange(4))
    written = {pixels(i).tobytes(): i % 2 for i in range(50, 54)}
    found = {
        x.numpy().astype(np.uint8).tobytes(): int(y) for x, y in zip(test.x, test.y, strict=True)
    }
    assert found.keys() == written.keys()
    assert {found[key] for key, odd in written.items() if odd} == {0}  # cat comes before dog


def test_what_save_to_disk_wrote(tmp_path):
    """A saved dictionary of splits and a single saved table are both read."""
    whole = datasets.DatasetDict(
        {"train": table(0, 20), "validation": table(40, 4), "test": table(60, 4)}
    )
    whole.save_to_disk(tmp_path / "whole")
    data = HuggingFace(path=str(tmp_path / "whole"))
    check_dataset(data)
    assert len(data.split("validation")) == 4
    table(0, 20).save_to_disk(tmp_path / "single")
    single = HuggingFace(path=str(tmp_path / "single"))
    check_dataset(single)
    assert sum(len(single.split(name)) for name in ("train", "validation", "test")) == 20


def test_options_shrink_and_choose(parquet):
    """Size, grey, levels and no labels work as for every picture data set."""
    data = HuggingFace(path=str(parquet), size=4, channels=1, levels=16, label=None)
    check_dataset(data)
    assert data.spec.shape == (4, 4, 1)
    assert data.spec.levels == 16
    assert data.spec.classes is None


def test_a_wrong_column_and_a_wrong_path_are_errors_for_people(parquet, tmp_path):
    """The columns there are, and what a path must be, are told."""
    with pytest.raises(ElbowroomError, match="it has image, label"):
        _ = HuggingFace(path=str(parquet), image="picture").spec
    (tmp_path / "empty").mkdir()
    with pytest.raises(ElbowroomError, match="cannot load"):
        _ = HuggingFace(path=str(tmp_path / "empty")).spec


def test_a_model_trains_on_it(parquet):
    """From Parquet to a loss, by a config alone."""
    from elbowroom import Noise, assemble

    model = assemble(
        {
            "data": {"name": "hf", "path": str(parquet), "levels": 8},
            "process": "gaussian",
            "denoiser": {"name": "dit", "width": 16, "depth": 1},
        }
    )
    batch = HuggingFace(path=str(parquet), levels=8).split("train").take(torch.arange(8))
    losses = model(batch.x, batch.y, Noise.of(0, 8))
    losses.loss.backward()
    assert losses.loss.isfinite()

"""Data sets of the Hugging Face library."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from elbowroom.contracts.dataset import DataSpec
from elbowroom.errors import ConfigError, ElbowroomError
from elbowroom.plugins.datasets.hf import HuggingFace
from PIL import Image


def picture(seed: int, side: int = 9) -> Image.Image:
    return Image.fromarray(
        np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    )


class ClassLabel:
    num_classes = 3


class Table:
    """The part of the library's table that is used."""

    def __init__(self, count: int, columns=("id", "image", "label"), labels=(0, 1, 2)):
        self.count, self.column_names, self.labels = count, list(columns), labels
        self.features = {"label": ClassLabel(), "id": "int64", "image": "Image"}

    def __len__(self):
        return self.count

    def select_columns(self, names):
        return Table(self.count, names, self.labels)

    def row(self, i):
        row = {"id": i, "image": picture(i), "label": self.labels[i % len(self.labels)]}
        return {name: row[name] for name in self.column_names}

    def __getitem__(self, index):
        if isinstance(index, int):
            return self.row(index)
        return {name: [self.row(i)[name] for i in index] for name in self.column_names}


@pytest.fixture
def library(monkeypatch):
    """A stand-in for the library, whose ``loaded`` is what it loads."""
    module = ModuleType("datasets")
    module.__version__ = "4.0.0"
    module.loaded = {"train": Table(20), "test": Table(4)}

    def load_dataset(path, name, revision=None):
        if path == "broken":
            raise FileNotFoundError("no such data set")
        return module.loaded

    module.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", module)
    return module


def test_missing_package_says_what_to_install(monkeypatch):
    """Without the library the error names the extra."""
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ElbowroomError, match=r"pip install 'elbowroom\[hf\]'"):
        _ = HuggingFace(path="some/images").spec


def test_pictures_and_labels_are_read(library):
    """Rows come as integers and labels; validation is carved out of train, test is left alone."""
    data = HuggingFace(path="some/images")
    assert data.spec == DataSpec((9, 9, 3), levels=256, classes=3)
    splits = {name: data.split(name) for name in ("train", "validation", "test")}
    assert {name: len(split) for name, split in splits.items()} == {
        "train": 18, "validation": 2, "test": 4,
    }  # fmt: skip
    test = splits["test"].take(torch.tensor([3, 0]))
    assert np.array_equal(test.x, [np.asarray(picture(3)), np.asarray(picture(0))])
    assert test.y.tolist() == [0, 0]
    assert sorted([*splits["train"].rows, *splits["validation"].rows]) == list(range(20))


def test_pictures_are_averaged_down_and_grey(library):
    """Size and channels are those asked for."""
    data = HuggingFace(path="some/images", size=3, channels=1, levels=4, limit=7)
    assert data.spec == DataSpec((3, 3, 1), levels=4, classes=3)
    batch = data.split("train").take(torch.arange(7))
    assert batch.x.shape == (7, 3, 3, 1)
    assert int(batch.x.max()) < 4


def test_other_split_names_are_known(library):
    """``val`` and ``valid`` are validation, and a missing test is carved out of train."""
    library.loaded = {"train": Table(20), "val": Table(5)}
    data = HuggingFace(path="some/images", label=None)
    assert data.spec.classes is None
    assert [len(data.split(name)) for name in ("train", "validation", "test")] == [18, 5, 2]
    assert data.split("test").take(torch.tensor([0])).y is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image": "img"}, "no column 'img' in train; it has id, image, label"),
        ({"label": "id"}, "not a class label but int64"),
        ({"image": "id"}, "holds int, not images"),
        ({"size": 10}, "smaller than size=10"),
        ({"path": "broken"}, "cannot load 'broken'.*no such data set"),
    ],
)
def test_wrong_options_are_named(library, options: dict, message: str):
    """A wrong column, size or name is answered with the choices."""
    data = HuggingFace(**{"path": "some/images", **options})
    with pytest.raises(ElbowroomError, match=message):
        data.split("train").take(torch.tensor([0]))


def test_missing_labels_are_named(library):
    """A split whose labels were withheld (-1) is refused with the remedy at hand."""
    library.loaded = {"train": Table(20), "test": Table(4, labels=(-1,))}
    with pytest.raises(ElbowroomError, match="labels -1 to -1"):
        HuggingFace(path="some/images").split("test").take(torch.tensor([0]))


def test_missing_train_is_named(library):
    """A source without train is refused."""
    library.loaded = {"unsupervised": Table(3)}
    with pytest.raises(ElbowroomError, match="no split 'train', only unsupervised"):
        _ = HuggingFace(path="some/images").spec


def test_wrong_channels_are_refused():
    """Images are grey or RGB."""
    with pytest.raises(ValueError, match="channels"):
        HuggingFace(path="some/images", channels=2)


@pytest.mark.parametrize("form", ["dict", "table", "parquet"])
def test_real_library(tmp_path, monkeypatch, form: str):
    """The library itself, on a data set made and saved here."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "library")
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])}
    )
    rows = {"image": [picture(i) for i in range(20)], "label": [i % 2 for i in range(20)]}
    table = datasets.Dataset.from_dict(rows, features=features)
    folder = tmp_path / "made"
    if form == "dict":
        datasets.DatasetDict(train=table, test=table.select(range(4))).save_to_disk(str(folder))
    elif form == "table":
        table.save_to_disk(str(folder))
    else:
        folder.mkdir()
        table.to_parquet(str(folder / "train.parquet"))
    data = HuggingFace(path=str(folder))
    assert data.spec == DataSpec((9, 9, 3), levels=256, classes=2)
    assert len(data.split("train")) == (18 if form == "dict" else 17)
    split = data.split("test")
    batch = split.take(torch.arange(2))
    assert np.array_equal(batch.x[1], np.asarray(picture(int(split.rows[1]))))
    assert batch.y.tolist() == [int(row) % 2 for row in split.rows[:2]]


def test_wrong_options_are_config_errors(library):
    """A column that does not exist is the config's fault."""
    with pytest.raises(ConfigError):
        _ = HuggingFace(path="some/images", image="img").spec

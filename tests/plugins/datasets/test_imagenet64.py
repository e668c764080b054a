"""Downsampled ImageNet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from elbowroom.contracts.dataset import DataSpec
from elbowroom.errors import ElbowroomError
from elbowroom.plugins.datasets.imagenet64 import ImageNet64

rng = np.random.default_rng(0)
IMAGES = rng.integers(0, 256, (33, 64, 64, 3), dtype=np.uint8)
LABELS = rng.integers(1, 1001, 33)
LABELS[:2] = 1, 1000
PARTS = {
    **{f"train_data_batch_{i + 1}": slice(3 * i, 3 * i + 3) for i in range(10)},
    "val_data": slice(30, 33),
}


def batch(part: slice) -> dict:
    data = np.ascontiguousarray(IMAGES[part].transpose(0, 3, 1, 2)).reshape(-1, 12288)
    return {"data": data, "labels": LABELS[part].tolist(), "mean": data.mean(0)}


def write(folder: Path, form: str) -> Path:
    folder.mkdir(parents=True)
    for name, part in PARTS.items():
        save = np.savez if form == "npz" else np.savez_compressed
        save(folder / f"{name}.npz", **batch(part))
    return folder


@pytest.mark.parametrize("form", ["npz", "compressed npz"])
def test_reads_what_was_written(tmp_path, form: str):
    """Every form gives the images with channels last, in order, and labels from 0."""
    data = ImageNet64(path=write(tmp_path / "made", form))
    assert data.spec == DataSpec((64, 64, 3), levels=256, classes=1000)
    test = data.split("test").take(torch.arange(3))
    assert np.array_equal(test.x, IMAGES[30:])
    assert np.array_equal(test.y, LABELS[30:] - 1)
    train, validation = data.split("train"), data.split("validation")
    assert (len(train), len(validation)) == (27, 3)
    assert sorted(np.concatenate([train.rows, validation.rows])) == list(range(30))
    batch = train.take(torch.tensor([26, 0, 13]))
    assert np.array_equal(batch.x, IMAGES[train.rows[[26, 0, 13]]])
    assert np.array_equal(batch.y, LABELS[train.rows[[26, 0, 13]]] - 1)


def test_converts_once_and_again_when_changed(tmp_path, monkeypatch):
    """A second use reads the conversion; a changed batch is converted again."""
    folder = write(tmp_path / "made", "npz")
    assert len(ImageNet64(path=folder).split("test")) == 3
    cache = tmp_path / "cache" / "datasets"
    conversions = {path for path in cache.iterdir() if path.is_dir()}
    assert len(conversions) == 1
    assert len(ImageNet64(path=folder).split("test")) == 3
    assert {path for path in cache.iterdir() if path.is_dir()} == conversions
    np.savez(folder / "val_data.npz", **batch(slice(31, 33)))
    assert len(ImageNet64(path=folder).split("test")) == 2


def test_missing_files_say_what_to_do(tmp_path):
    """The error says what is needed, how to get it and where to put it."""
    with pytest.raises(ElbowroomError) as caught:
        ImageNet64().split("train")
    for part in ("train_data_batch_10", "val_data", "unzip", "data/imagenet64", "data.path="):
        assert part in str(caught.value)


def test_gaps_are_named(tmp_path):
    """A missing batch in the middle is not taken for a smaller set."""
    folder = write(tmp_path / "made", "npz")
    (folder / "train_data_batch_7.npz").unlink()
    with pytest.raises(ElbowroomError, match=r"train_data_batch_7\.npz is missing"):
        ImageNet64(path=folder).split("train")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": batch(slice(3))["data"][:, :3072]}, r"expected uint8 \[N, 12288\]"),
        ({"data": batch(slice(3))["data"].astype("f4")}, "float32"),
        ({"data": batch(slice(3))["data"][:0]}, r"labels of shape \[3\] for 0 images"),
        ({"labels": [1, 2]}, r"labels of shape \[2\] for 3 images"),
        ({"labels": [0, 1, 2]}, "from 1 to 1000"),
        ({"labels": [1, 2, 1001]}, "labels 0 to 1000"),
        ({"labels": [1.5, 2, 3]}, "not integers"),
        ({"data": None}, "pickled objects"),
    ],
)
def test_broken_batches_are_named_and_not_kept(tmp_path, change: dict, message: str):
    """A batch that is not what it should be is named, and no conversion is left behind."""
    folder = write(tmp_path / "made", "npz")
    np.savez(folder / "train_data_batch_2.npz", **{**batch(slice(3)), **change})
    with pytest.raises(ElbowroomError, match=rf"train_data_batch_2.*{message}"):
        ImageNet64(path=folder).split("train")
    assert not [path for path in (tmp_path / "cache" / "datasets").iterdir() if path.is_dir()]


@pytest.mark.parametrize("keep", [0, 10, 20_000])
def test_truncated_batches_are_named(tmp_path, keep: int):
    """A batch cut short is named, wherever it was cut."""
    folder = write(tmp_path / "made", "npz")
    path = folder / "val_data.npz"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ElbowroomError, match="val_data"):
        ImageNet64(path=folder).split("train")

"""MNIST and Fashion-MNIST from idx files."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from elbowroom.contracts.dataset import DataSpec
from elbowroom.errors import ElbowroomError
from elbowroom.plugins.datasets.fashion_mnist import FashionMnist
from elbowroom.plugins.datasets.idx import read_idx
from elbowroom.plugins.datasets.mnist import Mnist

rng = np.random.default_rng(0)
TRAIN = rng.integers(0, 256, (40, 28, 28), dtype=np.uint8), np.arange(40, dtype=np.uint8) % 10
TEST = rng.integers(0, 256, (7, 28, 28), dtype=np.uint8), np.arange(7, dtype=np.uint8)


def idx(array: np.ndarray) -> bytes:
    """An idx file of unsigned bytes."""
    return (
        bytes([0, 0, 8, array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.tobytes()
    )


def write(folder: Path, zipped: bool = False, dash: str = "-") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for part, (images, labels) in {"train": TRAIN, "t10k": TEST}.items():
        for name, array in (
            (f"{part}-images{dash}idx3-ubyte", images),
            (f"{part}-labels{dash}idx1-ubyte", labels),
        ):
            if zipped:
                (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
            else:
                (folder / name).write_bytes(idx(array))
    return folder


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("dash", ["-", "."])
@pytest.mark.parametrize("kind", [Mnist, FashionMnist])
def test_reads_what_was_written(tmp_path, kind: type, zipped: bool, dash: str):
    """Images and labels come back as written, plain or gzipped, under both usual names."""
    data = kind(path=write(tmp_path / "made", zipped, dash))
    assert data.spec == DataSpec((28, 28, 1), levels=256, classes=10)
    test = data.split("test").take(torch.arange(7))
    assert np.array_equal(test.x[..., 0], TEST[0])
    assert np.array_equal(test.y, TEST[1])
    train, validation = data.split("train"), data.split("validation")
    assert (len(train), len(validation)) == (36, 4)
    seen = [train.take(torch.arange(36)), validation.take(torch.arange(4))]
    found = {x.numpy().tobytes(): int(y) for b in seen for x, y in zip(b.x, b.y, strict=True)}
    assert found == {
        image.astype(np.int64).tobytes(): int(label) for image, label in zip(*TRAIN, strict=True)
    }


def test_usual_folder_is_found(tmp_path, monkeypatch):
    """Without a path, files in the usual folder are read."""
    write(tmp_path / "data" / "mnist")
    assert len(Mnist().split("test")) == 7


@pytest.mark.parametrize(("kind", "name"), [(Mnist, "mnist"), (FashionMnist, "fashion-mnist")])
def test_missing_files_say_what_to_do(tmp_path, kind: type, name: str):
    """The error says what is needed, how to get it and where to put it."""
    with pytest.raises(ElbowroomError) as caught:
        kind(path=tmp_path / "nowhere").split("train")
    text = str(caught.value)
    for part in ("nowhere", "train-images-idx3-ubyte", "get it", f"data/{name}", "data.path="):
        assert part in text


def test_spec_needs_no_files(tmp_path):
    """What the examples look like is known before the files are there."""
    assert Mnist(path=tmp_path, size=14).spec.shape == (14, 14, 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an idx file"),
        (b"\0\0", "not an idx file"),
        (b"<html>not found", "not an idx file"),
        (bytes([0, 0, 0x0D, 1]) + struct.pack(">I", 0), "element type 0x0d"),
        (bytes([0, 0, 8, 3, 0, 0]), "truncated"),
        (bytes([0, 0, 8, 0]), "truncated"),
        (idx(TRAIN[0])[:-1], "only 31359 bytes"),
        (idx(TRAIN[0]) + b"x", "more bytes"),
        (bytes([0, 0, 8, 3]) + b"\xff" * 12 + b"few", "only 3 bytes"),
        (gzip.compress(idx(TRAIN[0]))[:-20], "cannot read"),
        (b"\x1f\x8b" + b"broken gzip" * 9, "cannot read"),
        (idx(TRAIN[0][:, :27]), r"shape \(40, 27, 28\)"),
        (idx(TRAIN[1]), r"shape \(40,\)"),
        (idx(TRAIN[0][:0]), "no images|label"),
    ],
)
def test_broken_images_are_named(tmp_path, content: bytes, message: str):
    """Whatever is wrong with an image file, the error names the file and says what."""
    folder = write(tmp_path / "made")
    path = folder / "train-images-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(ElbowroomError, match=message) as caught:
        Mnist(path=folder).split("train")
    assert "-idx" in str(caught.value)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "message"),
    [(TRAIN[1][:-1], "one label for each of the 40"), (TRAIN[1] + 1, "allowed are 0 to 9")],
)
def test_broken_labels_are_named(tmp_path, labels: np.ndarray, message: str):
    """Labels that do not fit the images are refused."""
    folder = write(tmp_path / "made")
    (folder / "train-labels-idx1-ubyte").write_bytes(idx(labels))
    with pytest.raises(ElbowroomError, match=message):
        Mnist(path=folder).split("train")


def test_unreadable_file_is_named(tmp_path):
    """A file that cannot be opened is an error that names it."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(ElbowroomError, match=r"folder: Is a directory"):
        read_idx(tmp_path / "folder")

"""CIFAR-10 in its two forms."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from elbowroom.contracts.dataset import DataSpec
from elbowroom.errors import ElbowroomError
from elbowroom.plugins.datasets.cifar10 import Cifar10

rng = np.random.default_rng(0)
TRAIN = rng.integers(0, 256, (50, 32, 32, 3), dtype=np.uint8), np.arange(50) % 10
TEST = rng.integers(0, 256, (6, 32, 32, 3), dtype=np.uint8), np.arange(6)


def flat(images: np.ndarray) -> np.ndarray:
    """Channel-major rows of 3072."""
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2)).reshape(len(images), 3072)


def batches() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    train = {f"data_batch_{i + 1}": tuple(a[10 * i : 10 * i + 10] for a in TRAIN) for i in range(5)}
    return {**train, "test_batch": TEST}


def write_binary(folder: Path) -> Path:
    folder = folder / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for name, (images, labels) in batches().items():
        records = np.concatenate([labels[:, None].astype(np.uint8), flat(images)], axis=1)
        (folder / f"{name}.bin").write_bytes(records.tobytes())
    return folder.parent


def write_npz(folder: Path, shape=lambda images: images) -> Path:
    folder.mkdir(parents=True)
    np.savez(
        folder / "cifar10.npz",
        x_train=shape(TRAIN[0]),
        y_train=TRAIN[1][:, None],
        x_test=shape(TEST[0]),
        y_test=TEST[1],
    )
    return folder


FORMS = {
    "binary": write_binary,
    "npz": write_npz,
    "npz, channels first": lambda folder: write_npz(
        folder, lambda x: x.transpose(0, 3, 1, 2).copy()
    ),
    "npz, flat": lambda folder: write_npz(folder, flat),
    "the folder itself": lambda folder: write_binary(folder) / "cifar-10-batches-bin",
    "the npz itself": lambda folder: write_npz(folder) / "cifar10.npz",
}


@pytest.mark.parametrize("form", FORMS)
def test_reads_what_was_written(tmp_path, form: str):
    """Every form gives the same images, channels last, and the same labels and splits."""
    data = Cifar10(path=FORMS[form](tmp_path / "made"))
    assert data.spec == DataSpec((32, 32, 3), levels=256, classes=10)
    test = data.split("test").take(torch.arange(6))
    assert np.array_equal(test.x, TEST[0])
    assert np.array_equal(test.y, TEST[1])
    train, validation = data.split("train"), data.split("validation")
    assert (len(train), len(validation)) == (45, 5)
    rows = np.concatenate([train.rows, validation.rows])
    assert sorted(rows) == list(range(50))
    for split in (train, validation):
        batch = split.take(torch.arange(len(split)))
        assert np.array_equal(batch.x, TRAIN[0][split.rows])
        assert np.array_equal(batch.y, TRAIN[1][split.rows])


def test_missing_files_say_what_to_do(tmp_path):
    """The error says what is needed, how to get it and where to put it."""
    with pytest.raises(ElbowroomError) as caught:
        Cifar10().split("train")
    for part in ("data_batch_1", "tar xf", "data/cifar10", "data.path="):
        assert part in str(caught.value)


def test_a_missing_batch_is_named(tmp_path):
    """A set with one batch missing is not taken for a smaller set."""
    folder = write_binary(tmp_path / "made")
    (folder / "cifar-10-batches-bin" / "data_batch_4.bin").unlink()
    with pytest.raises(ElbowroomError, match=r"data_batch_4\.bin: No such file"):
        Cifar10(path=folder).split("train")


class Evil:
    def __reduce__(self):
        return os.system, ("false",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes are not whole records"),
        (b"\0" * 3072, "3072 bytes are not whole records"),
        (b"\x0b" + b"\0" * 3072, "labels 11 to 11"),
    ],
)
def test_broken_binary_batches_are_named(tmp_path, content: bytes, message: str):
    """Whatever is wrong with a binary batch, the error names the file and says what."""
    folder = write_binary(tmp_path / "made")
    (folder / "cifar-10-batches-bin" / "test_batch.bin").write_bytes(content)
    with pytest.raises(ElbowroomError, match=rf"test_batch.bin.*{message}"):
        Cifar10(path=folder).split("test")


def test_broken_npz_is_named(tmp_path):
    """A broken, incomplete or pickled npz is refused by name."""
    folder = write_npz(tmp_path / "made")
    path = folder / "cifar10.npz"
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    with pytest.raises(ElbowroomError, match=r"cifar10\.npz"):
        Cifar10(path=folder).split("test")
    path.write_bytes(whole.replace(TEST[0].tobytes()[:64], b"\0" * 64))
    with pytest.raises(ElbowroomError, match=r"cifar10.npz.*CRC"):
        Cifar10(path=folder).split("test")
    np.savez(path, x_train=TRAIN[0])
    with pytest.raises(ElbowroomError, match=r"no array 'x_test'; it has x_train"):
        Cifar10(path=folder).split("test")
    np.savez(path, x_test=np.array([Evil()], dtype=object), y_test=TEST[1])
    with pytest.raises(ElbowroomError, match=r"pickled"):
        Cifar10(path=folder).split("test")
    np.savez(path, x_test=np.asfortranarray(flat(TEST[0])), y_test=TEST[1])
    with pytest.raises(ElbowroomError, match="Fortran order"):
        Cifar10(path=folder).split("test")


def test_reading_is_far_faster_than_training(tmp_path):
    """Batches come at 20 times the rate at which a small model trains on digits (800 a second)."""
    split = Cifar10(path=write_npz(tmp_path / "made")).split("train")
    indices = torch.randint(45, (128,), generator=torch.Generator().manual_seed(0))
    split.take(indices)
    tries = []  # in time of the CPU, which a busy machine leaves alone
    for _ in range(5):
        start = time.process_time()
        for _ in range(4):
            split.take(indices)
        tries.append((time.process_time() - start) / 4)
    assert min(tries) < 128 / 16_000

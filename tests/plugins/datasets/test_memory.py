"""Memory does not grow with the data."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

# The high-water mark of this process alone: ru_maxrss would begin with the parent's.
MEASURE = """
import re, sys
from pathlib import Path
import numpy as np, torch
torch.set_num_threads(1)
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
"""


def growth(program: str) -> float:
    """How many megabytes a program's peak grew by, as it prints itself."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE + program], check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def test_reading_at_random_needs_little_memory(tmp_path):
    """Visiting a file of 300 MB in random batches takes less than 100 MB of memory."""
    path = tmp_path / "images"
    block = np.random.default_rng(0).integers(0, 256, 1 << 20, dtype=np.uint8).tobytes()
    with path.open("wb") as file:
        for _ in range(24_576 * 12_288 >> 20):
            file.write(block)
    grown = growth(f"""
from elbowroom.plugins.datasets.cache import DiskArray
from elbowroom.plugins.datasets.splits import ArraySplit
from elbowroom.randomness.shuffle import indices
split = ArraySplit(DiskArray(Path({str(path)!r}), (24_576, 64, 64, 3), "u1"), None)
positions = torch.arange(256)
split.take(positions)
before = peak()
for step in range(24_576 // 256):
    split.take(indices(0, step, positions, 256, len(split)))
print(peak() - before)
""")
    assert grown < 100


def test_converting_needs_little_memory(tmp_path):
    """A batch of 200 MB is converted and read with less than 100 MB."""
    folder = tmp_path / "made"
    folder.mkdir()
    for name, count in {"train_data_batch_1": 16_384, "val_data": 4}.items():
        batch = {"data": np.zeros((count, 12_288), np.uint8), "labels": [1] * count}
        np.savez(folder / f"{name}.npz", **batch)
    grown = growth(f"""
from elbowroom.plugins.datasets.imagenet64 import ImageNet64
before = peak()
split = ImageNet64(path=Path({str(folder)!r})).split("train")
split.take(torch.arange(64))
print(peak() - before)
""")
    assert grown < 100
